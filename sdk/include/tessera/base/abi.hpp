#pragma once
#include <fmt/core.h>

#include <version>

#include "tessera/abi_stamp.hpp"  // generated: TESSERA_ABI_STAMP, a hash over these headers

// Everything that decides whether a plugin and libtessera.so agree, as the compiler sees it in the
// source that defines the plugin: whatever set a flag (a target, a preset, the environment), it
// shows here. The host compares TESSERA_ABI_FIELDS exactly, and names the fields that differ. Where
// a flag has no macro, its effect is looked at: -fpack-struct, -fshort-enums, -mms-bitfields.
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

// What flags do to the layout of data, and what the preprocessor says of other rules.
namespace tessera::compiled {

struct OneByteFirst {
  char first;
  long double second;
};
enum Small { kSmall };
struct BitFields {
  char first : 4;
  int second : 4;
};

/// Text that is put together by the compiler, of this source and its flags alone.
struct Text {
  char characters[512] = {};
  unsigned size = 0;
  constexpr Text& operator<<(const char* text) {
    for (; *text != 0; ++text) characters[size++] = *text;
    return *this;
  }
  constexpr Text& operator<<(unsigned long number) {
    if (number >= 10) *this << number / 10;
    characters[size++] = static_cast<char>('0' + number % 10);
    return *this;
  }
};

#ifdef __cpp_rtti
#define TESSERA_ABI_RTTI "on"
#else
#define TESSERA_ABI_RTTI "off"
#endif
#ifdef __cpp_exceptions
#define TESSERA_ABI_EXCEPTIONS "on"
#else
#define TESSERA_ABI_EXCEPTIONS "off"
#endif
#ifdef __cpp_char8_t
#define TESSERA_ABI_CHAR8 "a type"
#else
#define TESSERA_ABI_CHAR8 "none"
#endif

static constexpr Text kFields =
    Text() << "sdk headers=" TESSERA_ABI_STAMP ";compiler=" TESSERA_ABI_COMPILER
              ";c++=" TESSERA_ABI_TEXT(__cplusplus) ";c++ abi=" TESSERA_ABI_TEXT(__GXX_ABI_VERSION)
           << ";cxx11 abi=" TESSERA_ABI_LIBRARY ";sanitizer=" TESSERA_ABI_SANITIZER
              ";fmt=" TESSERA_ABI_TEXT(FMT_VERSION) ";floating point=" TESSERA_ABI_MATH
                                                    ";float evaluation=" TESSERA_ABI_TEXT(
                                                        __FLT_EVAL_METHOD__)
           << ";alignment in structs=" << __builtin_offsetof(OneByteFirst, second)
           << ";bytes of an enum=" << sizeof(Small) << ";bytes of bit-fields=" << sizeof(BitFields)
           << ";bytes of wchar_t=" << sizeof(wchar_t)
           << ";digits of long double=" << static_cast<unsigned long>(__LDBL_MANT_DIG__)
           << ";char=" << (static_cast<char>(-1) < 0 ? "signed" : "unsigned")
           << ";exceptions=" TESSERA_ABI_EXCEPTIONS ";rtti=" TESSERA_ABI_RTTI
              ";char8_t=" TESSERA_ABI_CHAR8;

}  // namespace tessera::compiled

/// "sdk headers=91c24fe0;compiler=GNU 12;c++=202002L;…"
#define TESSERA_ABI_FIELDS ::tessera::compiled::kFields.characters
