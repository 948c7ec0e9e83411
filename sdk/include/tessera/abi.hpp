#pragma once
#include <fmt/core.h>

#include <version>

#include "tessera/abi_stamp.hpp"  // generated: TESSERA_ABI_STAMP, a hash over these headers

// Everything that decides whether a plugin and libtessera.so agree, as the compiler sees it in the
// source that defines the plugin: whatever set a flag (a target, a preset, the environment), it
// shows here. The host compares TESSERA_ABI_FIELDS exactly, and names the fields that differ.
//
// -march and the like are not among them: no header of the SDK has a vector type or an alignment of
// its own. -ffp-contract, -fno-math-errno and -fno-trapping-math change no result that crosses the
// boundary (and the first has no macro).

#define TESSERA_ABI_TEXT_OF(x) #x
#define TESSERA_ABI_TEXT(x) TESSERA_ABI_TEXT_OF(x)

#if defined(__clang__)
#define TESSERA_ABI_COMPILER "Clang " TESSERA_ABI_TEXT(__clang_major__)
#else
#define TESSERA_ABI_COMPILER "GNU " TESSERA_ABI_TEXT(__GNUC__)
#endif

#if defined(_GLIBCXX_DEBUG)
#define TESSERA_ABI_LIBRARY TESSERA_ABI_TEXT(_GLIBCXX_USE_CXX11_ABI) " debug"
#else
#define TESSERA_ABI_LIBRARY TESSERA_ABI_TEXT(_GLIBCXX_USE_CXX11_ABI)
#endif

#if defined(__SANITIZE_ADDRESS__)
#define TESSERA_ABI_SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define TESSERA_ABI_SANITIZER "thread"
#else
#define TESSERA_ABI_SANITIZER "none"
#endif

// Flags that give an expression another value. Each of them makes results of one plugin depend on
// how another was compiled, because inline functions of the headers exist once in a process.
#if defined(__FAST_MATH__)
#define TESSERA_ABI_MATH "-ffast-math"
#elif defined(__ASSOCIATIVE_MATH__)
#define TESSERA_ABI_MATH "-fassociative-math"
#elif defined(__RECIPROCAL_MATH__)
#define TESSERA_ABI_MATH "-freciprocal-math"
#elif defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#define TESSERA_ABI_MATH "-ffinite-math-only"
#elif defined(__NO_SIGNED_ZEROS__)
#define TESSERA_ABI_MATH "-fno-signed-zeros"
#elif defined(__ROUNDING_MATH__)
#define TESSERA_ABI_MATH "-frounding-math"
#elif defined(__GCC_IEC_559) && __GCC_IEC_559 == 0  // -fsingle-precision-constant, for one
#define TESSERA_ABI_MATH "not IEC 559"
#else
#define TESSERA_ABI_MATH "strict"
#endif

/// "sdk headers=91c24fe0;compiler=GNU 12;c++=202002L;…"
#define TESSERA_ABI_FIELDS                                                                      \
  "sdk headers=" TESSERA_ABI_STAMP ";compiler=" TESSERA_ABI_COMPILER ";c++=" TESSERA_ABI_TEXT(  \
      __cplusplus) ";cxx11 abi=" TESSERA_ABI_LIBRARY ";sanitizer=" TESSERA_ABI_SANITIZER        \
                   ";fmt=" TESSERA_ABI_TEXT(FMT_VERSION) ";floating point=" TESSERA_ABI_MATH    \
                                                         ";float evaluation=" TESSERA_ABI_TEXT( \
                                                             __FLT_EVAL_METHOD__)
