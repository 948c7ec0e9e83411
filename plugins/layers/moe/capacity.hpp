#pragma once
#include <algorithm>
#include <cmath>

#include "tessera/process_group.hpp"
#include "tessera/router.hpp"

namespace tessera {

/// How many choices an expert takes of `tokens` rows with top_k choices each: its share of them
/// times the factor, rounded up, in double; never more than there are tokens.
inline i64 capacity_of(i64 tokens, i64 top_k, i64 experts, double factor) {
  const double share = static_cast<double>(tokens * top_k) / static_cast<double>(experts);
  return static_cast<i64>(std::min(std::ceil(share * factor), static_cast<double>(tokens)));
}

/// Where an expert takes `limit` rows of each sequence: how many of them one of the `ranks` of a
/// tensor group may route, at most. These route equal runs of a microbatch's rows, whose samples
/// lie one after the other.
i64 most_rows(const BatchShape& batch, i64 ranks, i64 limit);

/// An expert takes at most `rows` of every `among` rows; all where rows is 0.
struct Taken {
  i64 rows = 0, among = 1;
  /// How many of n rows, rounded up; 0: all.
  i64 of(i64 n) const { return (n * rows + among - 1) / among; }
};

/// Drops the choices that are more than their expert takes of a sequence, on all of its ranks
/// alike, or of the rows that one rank routes.
class Capacity {
 public:
  struct Options {
    i64 experts = 0, top_k = 0;
    double factor = 1;
    bool per_sequence = true;  ///< or of the rows of a rank
    bool by_weight = true;     ///< the largest weights stay, or the first positions
  };
  Capacity(BuildContext& build, const Options& options);

  /// The experts of `routing`, E where a choice is dropped.
  Tensor keep(Context& cx, const Bundle& bundle, const Routing& routing) const;
  bool by_weight() const { return options_.by_weight; }
  Taken taken() const { return {limit_, tokens_}; }
  /// No rank keeps more choices of one expert.
  i64 rows_per_expert() const { return most_; }

 private:
  Options options_;
  TensorRegion region_;
  ProcessGroup* sequences_;  // ranks that hold the same sequences; nullptr: no others, or none yet
  bool shared_;              // do others hold parts of them?
  i64 tokens_, limit_, most_;  // of `tokens_` rows, of those of a rank
  Slot row_ids_;
};

}  // namespace tessera
