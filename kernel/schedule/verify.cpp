#include "kernel/schedule/verify.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tessera/error.hpp"

namespace tessera {

namespace {

// How far one microbatch of one chunk has come.
struct Progress {
  int forward = 0;                            // phases done, from the first on
  int input = 0;                              // phases whose input half is done, from the last on
  std::set<int> weight;                       // phases whose weight half is done
  std::set<int> again;                        // phases that were recomputed
  int left_forward = -1, left_backward = -1;  // actions that made what leaves the chunk
};

using Edge = std::tuple<bool, int, int>;  // forward, microbatch, stage that computed it

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
      for (const int exchange : action.released) {
        check(sending_.erase(exchange) > 0, "releases what is not sent, or a second time");
      }
      check(!stepped_, "comes after the step");
      check(plan_.shape.training || action.kind == PlanAction::F ||
                action.kind == PlanAction::Exchange,
            "has no place in a forward-only plan");
      apply(action);
    }
    finish();
  }

 private:
  void check(bool ok, std::string_view what) const {
    if (!ok) reject(plan_, at_, what);
  }

  void apply(const PlanAction& action) {
    switch (action.kind) {
      case PlanAction::F:
        forward(action, position_of(action));
        return;
      case PlanAction::B:
      case PlanAction::Bi:
      case PlanAction::Bw:
        backward(action, position_of(action));
        return;
      case PlanAction::Recompute:
        recompute(action, position_of(action));
        return;
      case PlanAction::Exchange:
        exchange(action);
        return;
      case PlanAction::Reduce:
        reduce(action);
        return;
      case PlanAction::Gather:
        gather(action);
        return;
      case PlanAction::Prepare:
        prepare(action);
        return;
      case PlanAction::Step:
        for (const int reduction : reductions_) {
          check(std::ranges::count(action.after, reduction) > 0, "does not wait for a reduction");
        }
        check(sending_.empty(), "does not wait until everything is sent");
        stepped_ = true;
        return;
    }
  }

  // --- Where things are

  int phases_of(int chunk) const { return static_cast<int>(chunks_.at(chunk).size()); }
  int layer_of(const PlanAction& action) const {
    return plan_.phases.at(static_cast<std::size_t>(action.phase)).layer;
  }
  int last_stage() const { return plan_.shape.virtual_stages() - 1; }
  /// Chunk of this rank that is this stage, or -1.
  int chunk_at(int stage) const {
    const auto found = std::ranges::find(plan_.stages, stage);
    return found == plan_.stages.end() ? -1 : static_cast<int>(found - plan_.stages.begin());
  }

  int position_of(const PlanAction& action) const {
    const auto chunk = chunks_.find(action.chunk);
    check(chunk != chunks_.end(), "is for a chunk that does not exist");
    check(action.microbatch >= 0 && action.microbatch < plan_.shape.microbatches,
          "is for a microbatch that does not exist");
    const std::vector<int>& phases = chunk->second;
    const auto found = std::ranges::find(phases, action.phase);
    check(found != phases.end(), "is for a phase of another chunk");
    return static_cast<int>(found - phases.begin());
  }

  // --- Compute

  void forward(const PlanAction& action, int position) {
    Progress& p = progress_[{action.microbatch, action.chunk}];
    check(p.forward == position, "runs its phase out of order or a second time");
    reads_parameters(action);
    const int total = phases_of(action.chunk);
    if (p.forward++ == 0) {
      reads(action, true);
      const int live = ++live_[action.chunk];
      check(live <= plan_.live.at(static_cast<std::size_t>(action.chunk)),
            "makes more microbatches live than the schedule declares");
    }
    if (p.forward < total) return;
    p.left_forward = static_cast<int>(at_);
    // Without a backward pass nothing is kept after the last phase.
    if (!plan_.shape.training) --live_[action.chunk];
  }

  void backward(const PlanAction& action, int position) {
    Progress& p = progress_[{action.microbatch, action.chunk}];
    const int total = phases_of(action.chunk);
    check(p.forward == total, "runs backward before its forward is done");
    check(action.kind == PlanAction::Bi || !complete_layers_.contains(layer_of(action)),
          "adds to gradients that were reduced before");
    if (action.kind == PlanAction::Bw) {
      check(total - 1 - position < p.input, "runs the weight half before the input half");
      check(p.weight.insert(position).second, "runs its weight half a second time");
    } else {
      check(p.input == total - 1 - position, "runs its phase out of order or a second time");
      if (p.input++ == 0) reads(action, false);
      const bool dropped = plan_.phases[static_cast<std::size_t>(action.phase)].recompute;
      check(!dropped || p.again.contains(position), "reads activations that were not recomputed");
      if (action.kind == PlanAction::B) p.weight.insert(position);
      if (p.input == total) p.left_backward = static_cast<int>(at_);
    }
    if (static_cast<int>(p.weight.size()) == total && p.input == total) --live_[action.chunk];
  }

  void recompute(const PlanAction& action, int position) {
    Progress& p = progress_[{action.microbatch, action.chunk}];
    const auto dropped = [&](int at) {
      const PhaseInfo& info = plan_.phases[static_cast<std::size_t>(
          chunks_.at(action.chunk)[static_cast<std::size_t>(at)])];
      return info.recompute && info.layer == layer_of(action);
    };
    check(dropped(position), "computes again what was kept");
    check(p.forward == phases_of(action.chunk), "computes again what was not computed");
    check(phases_of(action.chunk) - 1 - position >= p.input, "comes after its backward");
    check(position == 0 || !dropped(position - 1) || p.again.contains(position - 1),
          "does not start where its recomputed range starts");
    check(p.again.insert(position).second, "computes again a second time");
  }

  // --- Between ranks

  static bool waits(const PlanAction& action, int before) {
    return std::ranges::find(action.after, before) != action.after.end();
  }

  // The first phase of a pass reads what the neighbour stage computed.
  void reads(const PlanAction& action, bool forward) const {
    const int stage = plan_.stages.at(static_cast<std::size_t>(action.chunk)) + (forward ? -1 : 1);
    if (stage < 0 || stage > last_stage()) return;
    if (const int neighbour = chunk_at(stage); neighbour >= 0) {
      const auto found = progress_.find({action.microbatch, neighbour});
      const int made = found == progress_.end() ? -1
                       : forward                ? found->second.left_forward
                                                : found->second.left_backward;
      check(made >= 0, "reads what this rank has not computed yet");
      check(waits(action, made), "does not wait for what it reads");
      return;
    }
    const auto found = received_.find({forward, action.microbatch, stage});
    check(found != received_.end(), "reads what no exchange before it receives");
    check(waits(action, found->second), "does not wait for what it reads");
  }

  void exchange(const PlanAction& action) {
    check(plan_.shape.ranks > 1, "has no place on the only pipeline rank");
    check(!action.sends.empty() || !action.receives.empty(), "carries nothing");
    if (!action.sends.empty()) sending_.insert(static_cast<int>(at_));
    for (const PlanAction::Message& message : action.sends) {
      const int chunk = chunk_at(message.stage);
      check(chunk >= 0 && crosses(message, message.stage + (message.forward ? 1 : -1)),
            "sends what this rank does not have to send");
      const auto found = progress_.find({message.microbatch, chunk});
      const int made = found == progress_.end() ? -1
                       : message.forward        ? found->second.left_forward
                                                : found->second.left_backward;
      check(made >= 0, "sends what is not computed yet");
      check(waits(action, made), "does not wait for what it sends");
      check(sent_.insert({message.forward, message.microbatch, message.stage}).second,
            "sends a value a second time");
    }
    for (const PlanAction::Message& message : action.receives) {
      const int reader = chunk_at(message.stage + (message.forward ? 1 : -1));
      check(reader >= 0 && crosses(message, message.stage),
            "receives what this rank does not read");
      const Edge edge{message.forward, message.microbatch, message.stage};
      check(received_.emplace(edge, static_cast<int>(at_)).second,
            "receives a value a second time");
    }
  }

  /// Is `other` a stage of another rank, and the message one that exists?
  bool crosses(const PlanAction::Message& message, int other) const {
    return other >= 0 && other <= last_stage() && chunk_at(other) < 0 && message.peer >= 0 &&
           message.peer < plan_.shape.ranks && message.peer != plan_.shape.rank &&
           message.microbatch >= 0 && message.microbatch < plan_.shape.microbatches;
  }

  void reduce(const PlanAction& action) {
    const auto bucket = static_cast<std::size_t>(action.bucket);
    check(action.bucket >= 0 && bucket < plan_.bucket_layers.size(),
          "is for a bucket that does not exist");
    check(reduced_.insert(action.bucket).second, "reduces its bucket a second time");
    check(!action.after.empty(), "does not wait for its last gradient");
    for (const int before : action.after) {
      const PlanAction& last = plan_.actions[static_cast<std::size_t>(before)];
      check(last.kind == PlanAction::B || last.kind == PlanAction::Bw,
            "waits for what gives no gradient");
    }
    const std::vector<int>& layers = plan_.bucket_layers[bucket];
    complete_layers_.insert(layers.begin(), layers.end());
    reductions_.push_back(static_cast<int>(at_));
  }

  void gather(const PlanAction& action) {
    check(plan_.gathers, "has no place where ranks update all of their parameters");
    check(
        action.bucket >= 0 && static_cast<std::size_t>(action.bucket) < plan_.bucket_layers.size(),
        "is for a bucket that does not exist");
    check(gathers_.emplace(action.bucket, static_cast<int>(at_)).second,
          "gathers its bucket a second time");
  }

  void prepare(const PlanAction& action) {
    const auto bucket = static_cast<std::size_t>(action.bucket);
    check(action.bucket >= 0 && bucket < plan_.prepared.size() && plan_.prepared[bucket],
          "is for a bucket without weights to prepare");
    check(prepares_.emplace(action.bucket, static_cast<int>(at_)).second,
          "prepares its bucket a second time");
    if (!plan_.gathers) return;
    const auto gathered = gathers_.find(action.bucket);
    check(gathered != gathers_.end() && waits(action, gathered->second),
          "does not wait for the parameters that it reads");
  }

  // The first reader of a bucket waits for its Gather and its Prepare; later readers come after
  // that one. A graph reads the parameters of all its layers with its first phase.
  void reads_parameters(const PlanAction& action) {
    const int graph = plan_.phases[static_cast<std::size_t>(action.phase)].graph;
    if (graph < 0) return reads_parameters(action, layer_of(action));
    for (const PhaseInfo& info : plan_.phases) {
      if (info.graph == graph) reads_parameters(action, info.layer);
    }
  }

  void reads_parameters(const PlanAction& action, int layer) {
    if (!read_layers_.insert(layer).second) return;
    for (int bucket = 0; bucket < static_cast<int>(plan_.bucket_layers.size()); ++bucket) {
      const std::vector<int>& layers = plan_.bucket_layers[static_cast<std::size_t>(bucket)];
      if (std::ranges::find(layers, layer) == layers.end()) continue;
      if (!read_buckets_.insert(bucket).second) continue;
      if (plan_.gathers) {
        const auto found = gathers_.find(bucket);
        check(found != gathers_.end(), "reads parameters that are not gathered yet");
        check(waits(action, found->second), "does not wait for the parameters that it reads");
      }
      if (static_cast<std::size_t>(bucket) < plan_.prepared.size() &&
          plan_.prepared[static_cast<std::size_t>(bucket)]) {
        const auto found = prepares_.find(bucket);
        check(found != prepares_.end(), "reads weights that are not prepared yet");
        check(waits(action, found->second), "does not wait for the weights that it reads");
      }
    }
  }

  // --- The end

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
        require_sent(microbatch, plan_.stages.at(static_cast<std::size_t>(chunk)), true);
        if (plan_.shape.training) {
          require_sent(microbatch, plan_.stages.at(static_cast<std::size_t>(chunk)), false);
        }
      }
    }
    for (int bucket = 0; bucket < static_cast<int>(plan_.bucket_layers.size()); ++bucket) {
      require(reduced_.contains(bucket),
              "the plan of pipeline rank {} is not valid: it does not reduce gradient bucket {}",
              plan_.shape.rank,
              bucket);
    }
    require(!plan_.gathers || gathers_.size() == plan_.bucket_layers.size(),
            "the plan of pipeline rank {} is not valid: it gathers {} of {} buckets",
            plan_.shape.rank,
            gathers_.size(),
            plan_.bucket_layers.size());
    require(stepped_ || !plan_.shape.training,
            "the plan of pipeline rank {} is not valid: it has no step",
            plan_.shape.rank);
  }

  void require_sent(int microbatch, int stage, bool forward) const {
    const int other = stage + (forward ? 1 : -1);
    if (other < 0 || other > last_stage() || chunk_at(other) >= 0) return;
    require(sent_.contains({forward, microbatch, stage}),
            "the plan of pipeline rank {} is not valid: it never sends the {} of microbatch {} "
            "from stage {}",
            plan_.shape.rank,
            forward ? "activations" : "gradients",
            microbatch,
            stage);
  }

  const Plan& plan_;
  std::size_t at_ = 0;
  std::map<int, std::vector<int>> chunks_;  // phases by chunk
  std::map<std::pair<int, int>, Progress> progress_;
  std::map<int, int> live_;
  std::set<int> reduced_, complete_layers_;
  std::vector<int> reductions_;            // indices of their actions
  std::map<int, int> gathers_, prepares_;  // indices of their actions, by bucket
  std::set<int> read_buckets_, read_layers_;
  std::set<Edge> sent_;
  std::map<Edge, int> received_;  // by which exchange
  std::set<int> sending_;         // exchanges whose sends were not waited for
  bool stepped_ = false;
};

}  // namespace

void reject(const Plan& plan, std::size_t action, std::string_view what) {
  fail("the plan of pipeline rank {} is not valid: action {} ({}) {}",
       plan.shape.rank,
       action,
       plan.text(plan.actions[action]),
       what);
}

void verify(const Plan& plan) { Player(plan).play(); }

}  // namespace tessera
