import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ExtensionContext.Store.CloseableResource;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/** Gives tests a {@code WrsEmulator.Server} with its own key. */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@ExtendWith(WrsEmulator.Extension.class)
public @interface WrsEmulator {
    /** Where the emulator is, and a key: its state, quota and clock are this test's alone. */
    record Server(String url, String key) {}

    /** Starts the emulator before the first test that asks for it. */
    class Extension implements ParameterResolver {
        @Override
        public boolean supportsParameter(ParameterContext parameter, ExtensionContext test) {
            return parameter.getParameter().getType() == Server.class;
        }

        @Override
        public Object resolveParameter(ParameterContext parameter, ExtensionContext test) {
            Running running = test.getRoot().getStore(Namespace.GLOBAL)
                    .getOrComputeIfAbsent(Running.class, key -> new Running(), Running.class);
            // The same in every run; no other test has it.
            UUID name = UUID.nameUUIDFromBytes(test.getUniqueId().getBytes(StandardCharsets.UTF_8));
            return new Server(running.url, "sk_test_" + name);
        }
    }

    /** The process; JUnit closes it after the last test. */
    class Running implements CloseableResource {
        /** Serves until its standard input is closed, which it is when this machine ends, however that ends. */
        private static final String LIFELINE = "\"$0\" \"$@\" & exec >/dev/null; cat; kill $! 2>/dev/null; wait $!";

        final Process process;
        final String url;

        Running() {
            try {
                process = new ProcessBuilder("sh", "-c", LIFELINE, "wrs-emulator", "serve", "--quiet", "--listen", "127.0.0.1:0")
                        .redirectError(ProcessBuilder.Redirect.INHERIT)
                        .start();
                BufferedReader output = new BufferedReader(new InputStreamReader(process.getInputStream()));
                String ready = output.readLine();
                if (ready == null) {
                    process.getOutputStream().close();
                    throw new IllegalStateException("wrs-emulator ended with exit code " + process.waitFor());
                }
                url = ready.substring(ready.indexOf("http"));
            } catch (java.io.IOException | InterruptedException problem) {
                throw new IllegalStateException("cannot start wrs-emulator; is it on the path?", problem);
            }
        }

        @Override
        public void close() throws java.io.IOException, InterruptedException {
            process.getOutputStream().close();
            process.waitFor();
        }
    }
}
