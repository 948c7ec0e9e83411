#include "simd/kernels_of_isa.hpp"
#include "simd/philox.hpp"
#include "simd/rows.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

constexpr i64 kChunk = 512;  // features whose random words are made at once

template <class T>
void drop(const DropoutArgs& args) {
  const auto x = rows_of<const T>(args.x);
  const auto residual = args.residual ? rows_of<const T>(args.residual) : Rows<const T>{};
  const auto out = rows_of<T>(args.out);
  const i64* ids = args.row_ids.as<const i64>();
  const bool random = args.p > 0;
  const Keeper keeper(args.p);
  const u64 key = args.key;
  const i64 offset = args.feature_offset;
  parallel_for(x.n, row_grain(x.width), [=](i64 begin, i64 end) {
    alignas(64) u32 words[kChunk + 8 * kLanes];
    for (i64 row = begin; row < end; ++row) {
      for (i64 first = 0; first < x.width; first += kChunk) {
        const i64 width = first + kChunk < x.width ? kChunk : x.width - first;
        const T* from = x[row] + first;
        const T* plus = residual.data != nullptr ? residual[row] + first : nullptr;
        T* to = out[row] + first;
        // A counter gives the words of four features; the first may be one of the middle.
        const i64 skipped = (offset + first) & 3;
        if (random) {
          philox_words(
              key, hidden_counter(ids[row], offset + first), (skipped + width + 3) / 4, words);
        }
        for_vectors(width, [=, &words](i64 j, auto count) {
          F y = load(from + j, count);
          if (random) y *= keeper.factor(words + skipped + j);
          if (plus != nullptr) y += load(plus + j, count);
          store(to + j, y, count);
        });
      }
    }
  });
}

}  // namespace

template <>
void run(const DropoutArgs& args) {
  with_storage(args.x.dtype, [&]<class T>(T) { drop<T>(args); });
}

}  // namespace tessera::cpu::TESSERA_ISA
