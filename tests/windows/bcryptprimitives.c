/* Rust's standard library imports ProcessPrng, which Windows has since version 8.1 and Wine since 9: for older ones. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) { return RtlGenRandom(data, (ULONG)size); }
