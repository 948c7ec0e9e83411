#include "kernel/planner/advice.hpp"

#include <algorithm>
#include <map>

#include "tessera/error.hpp"

namespace tessera {

namespace {

using Sets = std::vector<std::string>;
constexpr double kNotablyLess = 0.95;  // of a bubble: a larger batch has to be worth it

// By pipeline and context coordinate.
std::map<std::pair<i64, i64>, const Representative*> by_place(const Prediction& p) {
  std::map<std::pair<i64, i64>, const Representative*> out;
  for (const Representative& of : p.classes) out[{of.of.pipeline, of.of.context}] = &of;
  return out;
}

// The largest proper divisor.
i64 next_smaller(i64 n) {
  for (i64 factor = 2; factor * factor <= n; ++factor) {
    if (n % factor == 0) return n / factor;
  }
  return 1;
}

std::string set_text(std::string_view key, i64 value) { return fmt::format("{}={}", key, value); }

class Adviser {
 public:
  Adviser(const Prediction& now, const RunConfig& config, i64 capacity, const Predict& predict)
      : now_(now), config_(config), predict_(predict) {
    out_.fit = fit_of(now, capacity);
  }

  Advice run() {
    if (out_.fit.capacity > 0 && !out_.fit.fits()) find_smaller();
    out_.long_bubble = now_.layout.pipeline > 1 && now_.bubble > kLongBubble;
    if (out_.long_bubble) find_less_bubble();
    if (now_.overlaps || exchanges()) {
      out_.other_overlap = tried({fmt::format("schedule.overlap={}", !now_.overlaps)});
    }
    return std::move(out_);
  }

 private:
  std::optional<Alternative> tried(const Sets& sets) const {
    try {
      const Prediction other = predict_(sets);
      const Fit fit = fit_of(other, out_.fit.capacity);
      return Alternative{.change = fmt::format("{}", fmt::join(sets, " ")),
                         .held = fit.held,
                         .fits = fit.fits(),
                         .microbatches = other.microbatches,
                         .bubble = other.bubble,
                         .step_seconds = other.step_seconds,
                         .global = other.global};
    } catch (const Error&) {
      return std::nullopt;  // heads that do not divide, a schedule that wants other groups
    }
  }

  // Do phases start exchanges that another pass could hide?
  bool exchanges() const {
    return std::ranges::any_of(now_.classes, [](const Representative& of) {
      return std::ranges::any_of(of.plan.phases, &PhaseInfo::starts_exchange);
    });
  }

  // Keeps what holds less by more than a rounding of the allocator. Returns whether it fits.
  bool keep_smaller(const Sets& sets) {
    const auto found = tried(sets);
    if (!found || found->held > out_.fit.held - out_.fit.held / 50) return false;
    out_.smaller.push_back(*found);
    return found->fits;
  }

  void find_smaller() {
    // First what costs no further device, each by itself; then all of it together.
    Sets all;
    bool fits = false;
    const auto attempt = [&](const Sets& sets) {
      const std::size_t before = out_.smaller.size();
      fits = keep_smaller(sets) || fits;
      if (out_.smaller.size() > before) all.insert(all.end(), sets.begin(), sets.end());
    };
    const std::string& mode = config_.recompute.mode;
    if (mode == "none") attempt({"recompute.mode=selective"});
    if (mode != "full") {
      const std::size_t before = all.size();
      Sets full = {"recompute.mode=full"};
      const std::vector<std::string>& scopes = config_.recompute.scopes;
      const bool own_scopes = !scopes.empty() && scopes != RecomputeSection().scopes;
      if (own_scopes) full.emplace_back("recompute.scopes=[]");  // refused with it
      attempt(full);
      if (all.size() > before && before > 0) all.erase(all.begin());  // of the same key
    }
    if (now_.layout.tensor > 1 && !config_.parallel.sequence_parallel) {
      attempt({"parallel.sequence_parallel=true"});
    }
    if (now_.micro > 1) attempt({set_text("batch.micro", next_smaller(now_.micro))});
    if (all.size() > 1 && !fits) fits = keep_smaller(all);
    if (fits) return;
    for (const i64 times : {2, 4, 8}) {
      bool enough = keep_smaller({set_text("parallel.tensor", now_.layout.tensor * times)});
      enough =
          keep_smaller({set_text("parallel.pipeline", now_.layout.pipeline * times)}) || enough;
      if (enough) return;
    }
  }

  void find_less_bubble() {
    const auto better = [&](const Sets& sets) {
      const auto found = tried(sets);
      if (!found || found->bubble > kNotablyLess * now_.bubble) return false;
      if (out_.fit.fits() && !found->fits) return false;
      // Smaller microbatches may take longer than the bubble that they save.
      const double now = now_.step_seconds / static_cast<double>(now_.global);
      if (found->step_seconds / static_cast<double>(found->global) > now) return false;
      out_.less_bubble = found;
      return true;
    };
    for (i64 micro = now_.micro; micro > 1;) {
      micro = next_smaller(micro);
      if (better({set_text("batch.micro", micro)})) return;
    }
    // The batch is as finely cut as it goes: a larger one, in whole rounds of the pipeline.
    const i64 round = now_.layout.pipeline;
    const i64 next = (now_.microbatches / round + 1) * round;
    for (const i64 microbatches : {next, 2 * next}) {
      if (better({set_text("batch.global", microbatches * now_.data * now_.micro)})) return;
    }
  }

  const Prediction& now_;
  const RunConfig& config_;
  const Predict& predict_;
  Advice out_;
};

}  // namespace

Fit fit_of(const Prediction& p, i64 capacity) {
  Fit fit;
  fit.capacity = capacity > 0 ? capacity : static_cast<i64>(p.hardware.memory.capacity);
  fit.host = p.hardware.memory.shared && p.classes.front().on_host;
  const auto classes = by_place(p);
  const RankGenerator ranks(p.layout);
  const i64 of_host = p.hardware.ranks_per_host;
  std::map<std::pair<i64, i64>, Fit> shares;  // by what they share: a host, or a device of it
  for (i64 rank = 0; rank < p.layout.world; ++rank) {
    const Representative& of = *classes.at(
        {ranks.coordinate(rank, Axis::pipeline), ranks.coordinate(rank, Axis::context)});
    const i64 device = fit.host ? 0 : rank % of_host / p.ranks_on_unit;
    const auto [share, first] =
        shares.emplace(std::pair(p.hardware.host(rank), device), Fit{.rank = rank, .ranks = 0});
    share->second.held += of.held();
    ++share->second.ranks;
  }
  for (const auto& [where, share] : shares) {
    if (share.held <= fit.held) continue;
    fit.held = share.held;
    fit.rank = share.rank;
    fit.ranks = share.ranks;
  }
  return fit;
}

Advice advise(const Prediction& prediction,
              const RunConfig& config,
              i64 capacity,
              const Predict& predict) {
  return Adviser(prediction, config, capacity, predict).run();
}

}  // namespace tessera
