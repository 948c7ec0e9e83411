#include "kernel/schedule/verify.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/error.hpp"

namespace tessera {

namespace {

// How far one microbatch of one chunk has come.
struct Progress {
  int forward = 0;       // phases done, from the first on
  int input = 0;         // phases whose input half is done, from the last on
  std::set<int> weight;  // phases whose weight half is done
};

class Player {
 public:
  explicit Player(const Plan& plan) : plan_(plan) {
    for (std::size_t i = 0; i < plan.phases.size(); ++i) {
      chunks_[plan.phases[i].chunk].push_back(static_cast<int>(i));
    }
  }

  void play() {
    for (std::size_t i = 0; i < plan_.actions.size(); ++i) {
      at_ = i;
      const PlanAction& action = plan_.actions[i];
      for (const int before : action.after) {
        check(before >= 0 && before < static_cast<int>(i), "waits for a later action");
      }
      check(!stepped_, "comes after the step");
      apply(action);
    }
    finish();
  }

 private:
  void check(bool ok, std::string_view what) const {
    if (ok) return;
    const PlanAction& action = plan_.actions[at_];
    fail(
        "the plan of pipeline rank {} is not valid: action {} ({} microbatch {} chunk {} phase {} "
        "bucket {}) {}",
        plan_.shape.rank,
        at_,
        action_name(action.kind),
        action.microbatch,
        action.chunk,
        action.phase,
        action.bucket,
        what);
  }

  void apply(const PlanAction& action) {
    switch (action.kind) {
      case PlanAction::F:
      case PlanAction::B:
      case PlanAction::Bi:
      case PlanAction::Bw:
        compute(action);
        return;
      case PlanAction::Reduce:
        reduce(action);
        return;
      case PlanAction::Step:
        for (const int reduction : reductions_) {
          check(std::ranges::count(action.after, reduction) > 0, "does not wait for a reduction");
        }
        stepped_ = true;
        return;
      default:
        check(false, "is of a kind that one pipeline stage does not use");
    }
  }

  void reduce(const PlanAction& action) {
    check(reduced_.insert(action.bucket).second, "reduces its bucket a second time");
    check(!action.after.empty(), "does not wait for its last gradient");
    for (const int before : action.after) {
      const PlanAction& last = plan_.actions[static_cast<std::size_t>(before)];
      check(last.kind == PlanAction::B || last.kind == PlanAction::Bw,
            "waits for what gives no gradient");
      complete_layers_.insert(layer_of(last));
    }
    reductions_.push_back(static_cast<int>(at_));
  }

  int layer_of(const PlanAction& action) const {
    return plan_.phases.at(static_cast<std::size_t>(action.phase)).layer;
  }

  void compute(const PlanAction& action) {
    const auto chunk = chunks_.find(action.chunk);
    check(chunk != chunks_.end(), "is for a chunk that does not exist");
    const std::vector<int>& phases = chunk->second;
    const int total = static_cast<int>(phases.size());
    int position = 0;
    while (position < total && phases[static_cast<std::size_t>(position)] != action.phase) {
      ++position;
    }
    check(position < total, "is for a phase of another chunk");
    Progress& p = progress_[{action.microbatch, action.chunk}];
    if (action.kind == PlanAction::F) {
      check(p.forward == position, "runs its phase out of order or a second time");
      if (p.forward++ == 0) {
        const int live = ++live_[action.chunk];
        check(live <= plan_.live.at(static_cast<std::size_t>(action.chunk)),
              "makes more microbatches live than the schedule declares");
      }
      // Without a backward pass nothing is kept behind the last phase.
      if (!plan_.shape.training && p.forward == total) --live_[action.chunk];
      return;
    }
    check(p.forward == total, "runs backward before its forward is done");
    check(action.kind == PlanAction::Bi || !complete_layers_.contains(layer_of(action)),
          "adds to gradients that were reduced before");
    if (action.kind == PlanAction::Bw) {
      check(total - 1 - position < p.input, "runs the weight half before the input half");
      check(p.weight.insert(position).second, "runs its weight half a second time");
    } else {
      check(p.input == total - 1 - position, "runs its phase out of order or a second time");
      ++p.input;
      if (action.kind == PlanAction::B) p.weight.insert(position);
    }
    if (static_cast<int>(p.weight.size()) == total && p.input == total) --live_[action.chunk];
  }

  void finish() const {
    for (int microbatch = 0; microbatch < plan_.shape.microbatches; ++microbatch) {
      for (const auto& [chunk, phases] : chunks_) {
        const auto found = progress_.find({microbatch, chunk});
        const int total = static_cast<int>(phases.size());
        const bool forward = found != progress_.end() && found->second.forward == total;
        const bool backward = !plan_.shape.training ||
                              (forward && static_cast<int>(found->second.weight.size()) == total);
        require(forward && backward,
                "the plan of pipeline rank {} is not valid: microbatch {} of chunk {} is missing "
                "its {} pass",
                plan_.shape.rank,
                microbatch,
                chunk,
                forward ? "backward" : "forward");
      }
    }
    for (int bucket = 0; bucket < static_cast<int>(reduced_.size()); ++bucket) {
      require(reduced_.contains(bucket), "the plan does not reduce gradient bucket {}", bucket);
    }
    require(stepped_ || !plan_.shape.training, "the plan has no step");
  }

  const Plan& plan_;
  std::size_t at_ = 0;
  std::map<int, std::vector<int>> chunks_;  // phases by chunk
  std::map<std::pair<int, int>, Progress> progress_;
  std::map<int, int> live_;
  std::set<int> reduced_, complete_layers_;
  std::vector<int> reductions_;  // indices of their actions
  bool stepped_ = false;
};

}  // namespace

void verify(const Plan& plan) { Player(plan).play(); }

}  // namespace tessera
