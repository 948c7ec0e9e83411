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

/// Rows are shared out in as many parts, each with scratch for the exponentials of one row.
i64 parts_of(const WholeCrossEntropyArgs& args) {
  const i64 n = args.logits.shape[0], threads = parallel_threads();
  const i64 parts = n / row_grain(args.valid);
  return parts < 1 ? 1 : (parts < threads ? parts : threads);
}
i64 scratch_of(const WholeCrossEntropyArgs& args) {
  return (args.valid + kLanes - 1) / kLanes * kLanes;
}

/// A row is read from memory once; the passes over it meet it in the core's cache.
template <class T, bool kGradient>
void whole_row(const WholeCrossEntropyArgs& args, double weight, i64 row, float* scratch) {
  const auto logits = rows_of<const T>(args.logits);
  const i64 valid = args.valid, entry = args.targets.as<const i64>()[row];
  const T* x = logits[row];
  F best = broadcast(-kInfinity);
  for_vectors(valid, [&](i64 j, auto count) {
    best = maximum(best, keep(load(x + j, count), count, broadcast(-kInfinity)));
  });
  const float max = largest(best);
  F total = {};
  for_vectors(valid, [&](i64 j, auto count) {
    const F e = keep(exp(load(x + j, count) - max), count);
    total += e;
    if constexpr (kGradient) store(scratch + j, e, count);
  });
  float* sums = args.sums.as<float>() + row * args.sums.strides[0];
  sums[0] = sum(total);
  sums[1] = entry >= 0 && entry < valid ? load_one(x + entry) - max : 0.0F;
  if constexpr (kGradient) {
    const auto out = rows_of<T>(args.out);
    T* to = out[row];
    const auto bytes = [](i64 n) { return static_cast<std::size_t>(n) * sizeof(T); };
    if (args.mask.as<const u8>()[row] == 0) {
      __builtin_memset(to, 0, bytes(out.width));
      return;
    }
    const float share = static_cast<float>(weight / static_cast<double>(sums[0]));
    for_vectors(valid,
                [=](i64 j, auto count) { store(to + j, load(scratch + j, count) * share, count); });
    if (entry >= 0 && entry < valid) {
      store_one(to + entry,
                __builtin_assoc_barrier(scratch[entry] * share) - static_cast<float>(weight));
    }
    __builtin_memset(to + valid, 0, bytes(out.width - valid));
  }
}

template <class T, bool kGradient>
void whole(const WholeCrossEntropyArgs& args, float* scratch) {
  const i64 n = args.logits.shape[0], parts = parts_of(args), width = scratch_of(args);
  const double weight =
      kGradient ? *args.grad.as<const double>() * *args.inverse_weight.as<const double>() : 0.0;
  parallel_for(parts, 1, [=, &args](i64 begin, i64 end) {
    for (i64 part = begin; part < end; ++part) {
      for (i64 row = n * part / parts; row < n * (part + 1) / parts; ++row) {
        whole_row<T, kGradient>(args, weight, row, scratch + part * width);
      }
    }
  });
}

}  // namespace

template <>
i64 workspace_bytes(const WholeCrossEntropyArgs& args) {
  if (!args.out) return 0;
  return parts_of(args) * scratch_of(args) * static_cast<i64>(sizeof(float));
}

template <>
void run(const WholeCrossEntropyArgs& args, void* workspace) {
  float* scratch = static_cast<float*>(workspace);
  with_storage(args.logits.dtype, [&]<class T>(T) {
    if (args.out) {
      whole<T, true>(args, scratch);
    } else {
      whole<T, false>(args, scratch);
    }
  });
}

template <>
void run(const CrossEntropyMaxArgs& args) {
  with_storage(args.logits.dtype, [&]<class T>(T) { row_maxima<T>(args); });
}

template <>
void run(const CrossEntropySumsArgs& args) {
  with_storage(args.logits.dtype, [&]<class T>(T) { row_sums<T>(args); });
}

// Runs on one thread, for one order.
template <>
void run(const CrossEntropyLossArgs& args) {
  const float* sums = args.sums.as<const float>();
  const i64 stride = args.sums.strides[0];
  const u8* mask = args.mask.as<const u8>();
  double total = 0;
  for (i64 row = 0; row < args.sums.shape[0]; ++row) {
    if (mask[row] == 0) continue;
    const float* pair = sums + row * stride;
    total += args.hits ? static_cast<double>(pair[1] == 0)
                       : __builtin_log(static_cast<double>(pair[0])) - static_cast<double>(pair[1]);
  }
  *args.out.as<double>() = total * *args.inverse_weight.as<const double>();
}

template <>
void run(const CrossEntropyGradArgs& args) {
  with_storage(args.logits.dtype, [&]<class T>(T) { gradient<T>(args); });
}

}  // namespace tessera::cpu::TESSERA_ISA
