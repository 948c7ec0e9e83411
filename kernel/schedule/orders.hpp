#pragma once
#include <string>
#include <vector>

#include "tessera/schedule.hpp"

namespace tessera {

/// What a schedule says of all ranks: their orders and which virtual stage each chunk is.
struct Orders {
  struct Owner {
    int rank = 0, chunk = 0;
  };
  PipelineShape shape;                       ///< `rank` is unused
  std::vector<std::vector<Action>> by_rank;  ///< in launch order
  std::vector<std::vector<int>> stages;      ///< by rank and chunk
  std::vector<Owner> owners;                 ///< by virtual stage
  /// By rank and action: does it make a pair with the next one? The pair starts once both have
  /// their inputs, and both have their results at its end (PipelineSchedule::overlaps).
  std::vector<std::vector<bool>> pairs = {};
  bool leads_pair(std::size_t rank, std::size_t action) const {
    return rank < pairs.size() && pairs[rank][action];
  }
  /// First and last action of the pair that it is in, or itself.
  std::size_t pair_begin(std::size_t rank, std::size_t action) const {
    return action > 0 && leads_pair(rank, action - 1) ? action - 1 : action;
  }
  std::size_t pair_end(std::size_t rank, std::size_t action) const {
    return leads_pair(rank, action) ? action + 1 : action;
  }
  int stage(int rank, int chunk) const {
    return stages[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)];
  }
  /// The other rank that reads what this one's action computes; -1: none does.
  int reader(int rank, const Action& action) const;
  /// Does any result of the pair that begins with `action` go to another rank?
  bool pair_sends(std::size_t rank, std::size_t action) const;
  int last_stage() const { return static_cast<int>(owners.size()) - 1; }
};

/// A pipeline under this schedule; `rank` is 0. Throws Error when the schedule has no chunks,
/// ConfigError when ranks, chunks and microbatches multiply to more than 2^24.
PipelineShape shape_of(const PipelineSchedule& schedule,
                       int ranks,
                       i64 microbatches,
                       bool training);

/// Asks the schedule. Throws Error when the places are not every stage once, or an action is of a
/// kind, microbatch or chunk that does not exist; what else a schedule throws is passed on with the
/// rank that it was asked for.
Orders orders_of(const PipelineSchedule& schedule, const PipelineShape& shape);

/// "Bi mb0 chunk1".
std::string text_of(const Action& action);

}  // namespace tessera
