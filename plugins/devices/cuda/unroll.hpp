#pragma once
// Values of a thread are in registers only if loops over them are unrolled.
#ifdef __CUDACC__
#define TESSERA_UNROLL _Pragma("unroll")
#define TESSERA_UNROLL_TWICE _Pragma("unroll 2")
#define TESSERA_DO_NOT_UNROLL _Pragma("unroll 1")
#else
#define TESSERA_UNROLL
#define TESSERA_UNROLL_TWICE
#define TESSERA_DO_NOT_UNROLL
#endif
