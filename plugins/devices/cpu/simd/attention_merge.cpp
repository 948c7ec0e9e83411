#include "simd/attention_blocks.hpp"
#include "simd/kernels_of_isa.hpp"
#include "simd/rows.hpp"

namespace tessera::cpu::TESSERA_ISA {

namespace {

template <class T>
void merge(const AttentionMergeArgs& args) {
  const i64 queries = args.out.shape[1], heads = args.out.shape[2], d = args.out.shape[3];
  const i64 rows = args.out.shape[0] * heads * queries;
  parallel_for(rows, row_grain(d), [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const i64 sample = row / (heads * queries), head = row / queries % heads;
      const i64 query = row % queries;
      float& lse = args.lse.as<float>()[row];
      const float other = args.part_lse.as<const float>()[row];
      const float top = lse > other ? lse : other;
      if (top == kMinusInfinity) continue;  // no key on either side
      const double mine = __builtin_exp(static_cast<double>(lse) - top);
      const double its = __builtin_exp(static_cast<double>(other) - top);
      const double total = mine + its;
      const F keep = broadcast(static_cast<float>(mine / total));
      const F take = broadcast(static_cast<float>(its / total));
      T* out = head_of<T>(args.out, sample, head)[query];
      const T* part = head_of<const T>(args.part_out, sample, head)[query];
      for_vectors(d, [=](i64 j, auto n) {
        store(out + j, keep * load(out + j, n) + take * load(part + j, n), n);
      });
      lse = static_cast<float>(top + __builtin_log(total));
    }
  });
}

}  // namespace

template <>
void run(const AttentionMergeArgs& args) {
  with_storage(args.out.dtype, [&]<class T>(T) { merge<T>(args); });
}

}  // namespace tessera::cpu::TESSERA_ISA
