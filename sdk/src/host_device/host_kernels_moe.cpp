#include <array>
#include <cstddef>
#include <cstring>

#include "sdk/src/host_device/host_kernels.hpp"
#include "tessera/core_ops.hpp"
#include "tessera/parallel_for.hpp"

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
          make_kernel<InvertOrderArgs>(&invert),
          make_kernel<PermuteRowsArgs>(&permute)};
}

}  // namespace tessera
