#include "simd/kernels_of_isa.hpp"
#include "simd/math.hpp"
#include "simd/rows.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

template <class T>
void row_maxima(const CrossEntropyMaxArgs& args) {
  const auto logits = rows_of<const T>(args.logits);
  float* out = args.out.as<float>();
  const i64 valid = args.valid;
  parallel_for(logits.n, row_grain(valid), [=](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const T* x = logits[row];
      F best = broadcast(-kInfinity);
      for_vectors(valid, [&](i64 j, auto count) {
        best = maximum(best, keep(load(x + j, count), count, broadcast(-kInfinity)));
      });
      out[row] = largest(best);
    }
  });
}

template <class T>
void row_sums(const CrossEntropySumsArgs& args) {
  const auto logits = rows_of<const T>(args.logits);
  const auto out = rows_of<float>(args.out);
  const i64* targets = args.targets.as<const i64>();
  const float* maxima = args.max.as<const float>();
  const i64 first = args.first, valid = args.valid;
  parallel_for(logits.n, row_grain(valid), [=](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const T* x = logits[row];
      const float max = maxima[row];
      F total = {};
      for_vectors(valid,
                  [&](i64 j, auto count) { total += keep(exp(load(x + j, count) - max), count); });
      const i64 entry = targets[row] - first;
      out[row][0] = sum(total);
      out[row][1] = entry >= 0 && entry < valid ? load_one(x + entry) - max : 0.0F;
    }
  });
}

template <class T>
void gradient(const CrossEntropyGradArgs& args) {
  const auto logits = rows_of<const T>(args.logits);
  const auto sums = rows_of<const float>(args.sums);
  const auto out = rows_of<T>(args.out);
  const i64* targets = args.targets.as<const i64>();
  const float* maxima = args.max.as<const float>();
  const u8* mask = args.mask.as<const u8>();
  const double weight = *args.grad.as<const double>() * *args.inverse_weight.as<const double>();
  const i64 first = args.first, valid = args.valid;
  parallel_for(logits.n, row_grain(out.width), [=](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      T* to = out[row];
      const auto bytes = [](i64 n) { return static_cast<std::size_t>(n) * sizeof(T); };
      if (mask[row] == 0) {
        __builtin_memset(to, 0, bytes(out.width));
        continue;
      }
      const T* x = logits[row];
      const float max = maxima[row];
      const float scale = static_cast<float>(weight);
      const float share = static_cast<float>(weight / sums[row][0]);
      const i64 entry = targets[row] - first;
      const bool here = entry >= 0 && entry < valid;
      const float target = here ? load_one(x + entry) : 0.0F;  // x may be overwritten
      const auto probability = [=](F logit) { return exp(logit - max) * share; };
      for_vectors(
          valid, [=](i64 j, auto count) { store(to + j, probability(load(x + j, count)), count); });
      if (here)
        store_one(to + entry, __builtin_assoc_barrier(probability(broadcast(target))[0]) - scale);
      __builtin_memset(to + valid, 0, bytes(out.width - valid));
    }
  });
}

}  // namespace

template <>
void run(const CrossEntropyMaxArgs& args) {
  with_storage(args.logits.dtype, [&]<class T>(T) { row_maxima<T>(args); });
}

template <>
void run(const CrossEntropySumsArgs& args) {
  with_storage(args.logits.dtype, [&]<class T>(T) { row_sums<T>(args); });
}

// In one thread's order by definition.
template <>
void run(const CrossEntropyLossArgs& args) {
  const float* sums = args.sums.as<const float>();
  const i64 stride = args.sums.strides[0];
  const u8* mask = args.mask.as<const u8>();
  double total = 0;
  for (i64 row = 0; row < args.sums.shape[0]; ++row) {
    if (mask[row] == 0) continue;
    const float* pair = sums + row * stride;
    total += __builtin_log(static_cast<double>(pair[0])) - static_cast<double>(pair[1]);
  }
  *args.out.as<double>() = total * *args.inverse_weight.as<const double>();
}

template <>
void run(const CrossEntropyGradArgs& args) {
  with_storage(args.logits.dtype, [&]<class T>(T) { gradient<T>(args); });
}

}  // namespace tessera::cpu::TESSERA_ISA
