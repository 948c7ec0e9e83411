#pragma once
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/plan.hpp"

namespace tessera::testing {

/// Runs the plans of all ranks on numbers that remember how they came about, action by action in a
/// random interleaving of ranks. An independent reference for the verifier: shares no code with it,
/// trusts no plan. A value that was sent is there only for who waited for the exchange.
class PlanMachine {
 public:
  PlanMachine(std::span<const Plan> plans, bool rendezvous, u64 seed);
  /// "" when every rank came to its end and every gradient is right; otherwise what went wrong.
  std::string run();

 private:
  using Edge = std::tuple<bool, int, int>;  // forward, microbatch, stage
  struct Pass {                             // of one microbatch and chunk
    std::map<int, u64> kept, inputs;        // activations and what they came of, by phase
    std::map<int, u64> gradients;           // by phase, of its input
    u64 output = 0;
    bool done = false;
  };
  struct Rank {
    std::size_t next = 0;
    std::map<std::pair<int, int>, Pass> passes;
    std::map<Edge, u64> arrived;
    std::map<int, std::map<int, std::multiset<u64>>> weights;  // by phase and microbatch
    std::set<int> reduced;                                     // layers
    std::set<int> sending;                                     // exchanges not released
  };
  struct Channel {
    std::vector<u64> sent;
    std::size_t receives = 0;
  };
  struct Posted {
    std::size_t at;  // its place in the channel
    int peer;
    bool send;
    Edge edge;
  };

  bool step(int rank);
  bool completes(int rank, int exchange, bool sends) const;
  void arrive(int rank, int exchange);
  void post(int rank, const PlanAction& action);
  void compute(int rank, const PlanAction& action);
  u64 entering(int rank, const PlanAction& action, bool forward);
  u64 leaving(int rank, int microbatch, int chunk, bool forward);
  void wrong(int rank, const std::string& what);
  std::vector<int> phases_of(const Plan& plan, int chunk) const;
  void compare();

  std::span<const Plan> plans_;
  bool rendezvous_;
  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, Channel> channels_;
  std::vector<std::map<int, std::vector<Posted>>> posted_;  // by rank and action
  std::string wrong_;
};

}  // namespace tessera::testing
