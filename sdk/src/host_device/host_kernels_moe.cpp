#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <tuple>

#include "sdk/src/host_device/host_kernels.hpp"
#include "tessera/device/core_ops.hpp"
#include "tessera/parallel_for.hpp"
#include "tessera/random.hpp"

namespace tessera {
namespace {

bool is_expert(i32 expert, i64 all) { return expert >= 0 && expert < all; }

void count(const ExpertCountsArgs& args) {
  const i32* experts = args.experts.as<const i32>();
  i64* counts = args.counts.as<i64>();
  const i64 k = args.experts.shape[1];
  for (i64 i = 0; !args.add && i < args.counts.elements(); ++i) counts[i] = 0;
  for (i64 row = 0; row < args.experts.shape[0]; ++row) {
    i64* of_sequence = counts + args.rows.of(row) * args.all;
    for (i64 c = 0; c < k; ++c) {
      const i32 expert = experts[row * k + c];
      if (is_expert(expert, args.all)) ++of_sequence[expert];
    }
  }
}

// A counting sort: stable, and as fast for one hot expert as for many.
void sort(const SortByExpertArgs& args) {
  const i32* experts = args.experts.as<const i32>();
  i32* order = args.order.as<i32>();
  i32* inverse = args.inverse.as<i32>();
  const i64 choices = args.experts.elements();
  const auto key = [&](i64 choice) {
    return static_cast<std::size_t>(is_expert(experts[choice], args.all) ? experts[choice]
                                                                         : args.all);
  };
  std::array<i32, RouterSpec::kMaxExperts + 2> places{};  // of each expert's next choice
  for (i64 choice = 0; choice < choices; ++choice) ++places[key(choice) + 1];
  for (std::size_t e = 1; e < places.size(); ++e) places[e] += places[e - 1];
  for (i64 choice = 0; choice < choices; ++choice) {
    const i32 place = places[key(choice)]++;
    order[place] = static_cast<i32>(choice);
    inverse[choice] = place;
  }
}

LaunchRequirements prepare_keep(const KeepChoicesArgs& args) {
  return {.workspace_bytes = args.experts.elements() * static_cast<i64>(sizeof(i32))};
}

void keep(const KeepChoicesArgs& args, void* workspace, Stream&) {
  const i32* experts = args.experts.as<const i32>();
  const i64* ids = args.row_ids.as<const i64>();
  const i64 k = args.experts.shape[1];
  const auto weight = [&](i32 choice) {
    double value = 0;
    if (args.weights.dtype == DType::fp64) {
      value = args.weights.as<const double>()[choice];
    } else {
      value = static_cast<double>(args.weights.as<const float>()[choice]);
    }
    return std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
  };
  const bool by_weight = args.weights.rank > 0;
  const auto group = [&](i32 choice) {
    const i64 row = choice / k;
    return std::tuple(args.per_sample ? row_sample(ids[row]) : 0, experts[choice]);
  };
  const auto key = [&](i32 choice) {
    return std::tuple(group(choice), by_weight ? -weight(choice) : 0.0, ids[choice / k], choice);
  };
  auto* order = static_cast<i32*>(workspace);
  i64 choices = 0;
  for (i64 choice = 0; choice < args.experts.elements(); ++choice) {
    const bool takes_part = is_expert(experts[choice], args.all) && !is_padding(ids[choice / k]);
    if (takes_part) order[choices++] = static_cast<i32>(choice);
  }
  std::sort(order, order + choices, [&](i32 a, i32 b) { return key(a) < key(b); });
  i32* kept = args.kept.as<i32>();
  std::fill_n(kept, args.kept.elements(), static_cast<i32>(args.all));
  i64 begin = 0;  // of the choices of one expert
  for (i64 i = 0; i < choices; ++i) {
    if (group(order[i]) != group(order[begin])) begin = i;
    const i64 place = order[i] - args.first * k;
    if (i - begin >= args.limit || place < 0 || place >= args.kept.elements()) continue;
    kept[place] = experts[order[i]];
  }
}

void pad(const PadOrderArgs& args) {
  const i32* order = args.order.as<const i32>();
  const i64* counts = args.counts.as<const i64>();
  i32* padded = args.padded.as<i32>();
  i64 begin = 0;
  for (i64 e = 0; e < args.counts.shape[0]; ++e) {
    const i64 count = std::clamp<i64>(counts[e], 0, args.order.shape[0] - begin);
    for (i64 i = 0; i < args.places; ++i) {
      padded[e * args.places + i] = i < count ? order[begin + i] : -1;
    }
    begin += count;
  }
}

void invert(const InvertOrderArgs& args) {
  const i32* order = args.order.as<const i32>();
  i32* inverse = args.inverse.as<i32>();
  for (i64 i = 0; i < args.size; ++i) inverse[i] = -1;
  for (i64 i = 0; i < args.order.elements(); ++i) {
    if (order[i] >= 0 && order[i] < args.size) inverse[order[i]] = static_cast<i32>(i);
  }
}

void permute(const PermuteRowsArgs& args) {
  const auto* x = args.x.as<const std::byte>();
  auto* out = args.out.as<std::byte>();
  const i32* order = args.order.as<const i32>();
  const i64 rows = args.x.shape[0], k = args.k;
  const i64 bytes = args.x.shape[1] * dtype_size(args.x.dtype);
  parallel_for(args.order.shape[0], 1 + 65536 / (bytes + 1), [=](i64 begin, i64 end) {
    for (i64 i = begin; i < end; ++i) {
      const bool filled = order[i] >= 0 && order[i] / k < rows;
      if (filled) {
        std::memcpy(out + i * bytes, x + order[i] / k * bytes, static_cast<std::size_t>(bytes));
      } else {
        std::memset(out + i * bytes, 0, static_cast<std::size_t>(bytes));
      }
    }
  });
}

}  // namespace

std::vector<Kernel> host_kernels_moe() {
  return {make_kernel<ExpertCountsArgs>(&count),
          make_kernel<SortByExpertArgs>(&sort),
          make_kernel<KeepChoicesArgs>(&prepare_keep, &keep),
          make_kernel<PadOrderArgs>(&pad),
          make_kernel<InvertOrderArgs>(&invert),
          make_kernel<PermuteRowsArgs>(&permute)};
}

}  // namespace tessera
