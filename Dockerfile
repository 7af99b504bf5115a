# The emulator as a container: one static binary and the authorities of the public internet, nothing else.
#
#   docker build -t wrs-emulator .
#   docker run --rm -p 9770:9770 wrs-emulator
#
# `tests/container/run.sh` runs the `RUN` line of the first stage, lays out what the last stage copies, and proves that it
# works there as process 1 with nothing else in the root. It refuses instructions that it does not know.

FROM rust:1.95-bookworm AS build
WORKDIR /build
COPY . .
# Static with glibc and not with musl: glibc's allocator is faster, and since glibc 2.34 the two ways of resolving names
# that a container has (`/etc/hosts`, DNS) are part of the binary. Packed relocations take 0.3 MiB less. Randomness comes straight
# from the kernel: code that looks up the function by name finds none in a static binary, and would need `/dev/urandom`.
# `--target` keeps the flags away from build scripts.
RUN RUSTFLAGS="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs --cfg getrandom_backend=\"linux_getrandom\"" \
    cargo build --locked --profile dist --target "$(uname -m)-unknown-linux-gnu" \
 && rm -rf target/image target/state \
 && mkdir -p target/image/scenarios target/state \
 && cp "target/$(uname -m)-unknown-linux-gnu/dist/wrs-emulator" target/image/

FROM scratch
LABEL org.opencontainers.image.title="wrs-emulator" \
      org.opencontainers.image.description="Offline emulator of the Workflow Reference Service API (v1.0, sandbox beta)" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /build/target/image/ /
# A new volume takes the owner of the folder that it is mounted over.
COPY --from=build --chown=65532:65532 /build/target/state/ /state/
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
# Numbers, as there is no list of users; the same as `nonroot` elsewhere.
USER 65532:65532
WORKDIR /
ENV WRS_EMULATOR_LISTEN=0.0.0.0:9770 \
    WRS_EMULATOR_SCENARIOS=/scenarios
EXPOSE 9770
HEALTHCHECK --interval=2s --timeout=2s --start-period=1s --retries=5 CMD ["/wrs-emulator", "health"]
ENTRYPOINT ["/wrs-emulator"]
