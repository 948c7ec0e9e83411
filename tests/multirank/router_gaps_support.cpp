#include "router_gaps_support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "kernel/model/host_values.hpp"
#include "tessera/ops.hpp"
#include "tessera/plugin.hpp"
#include "tessera/random.hpp"
#include "tessera/router.hpp"

namespace tessera::testing {

namespace {

const std::string kRouter = "model.block.mlp.router.";

std::vector<double> softmax(std::vector<double> row) {
  const double largest = std::ranges::max(row);
  double sum = 0;
  for (double& value : row) sum += value = std::exp(value - largest);
  for (double& value : row) value /= sum;
  return row;
}

// 16-bit values as fp32, which hosts read.
Tensor widened(Context& cx, const Tensor& tensor) {
  if (tensor.dtype() != DType::bf16 && tensor.dtype() != DType::fp16) return tensor;
  const Tensor wide = cx.empty(tensor.shape(), DType::fp32);
  CopyArgs copy{tensor.arg(), wide.arg()};
  ops::run(cx, copy);
  return wide;
}

// A row of numbers for each token, and the sequence that the token is of.
struct Rows {
  std::vector<std::vector<double>> values;
  std::vector<u64> samples;
};

// Leaves all work to another router and notes what its choices were made from. One rank at a time:
// all rows of a sequence must be here.
class WatchedRouter final : public Router {
 public:
  struct Config {
    i64 hidden = 0, experts = 0, top_k = 0;
    Auto<double> capacity_factor;
    std::string drop = "weight";
    Component<Router> inner{"top_k", {}};
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").given();
      s.field("experts", &Config::experts, "experts").given();
      s.field("top_k", &Config::top_k, "choices").given();
      s.field("capacity_factor", &Config::capacity_factor, "the layer's", "none")
          .from("model.block.mlp.capacity_factor");
      s.field("drop", &Config::drop, "the layer's").from("model.block.mlp.drop");
      s.slot("inner", &Config::inner, "what chooses");
    }
  };
  WatchedRouter(const Config& config, BuildContext& build)
      : top_k_(config.top_k),
        kept_(kept_by_weight(config, build.batch().sequence)),
        row_ids_(build.slot("row_ids")),
        inner_(build.child(
            "",
            config.inner,
            {{"hidden", config.hidden}, {"experts", config.experts}, {"top_k", config.top_k}})) {}

  Routing do_route(Context& cx, Bundle& bundle, const Tensor& x) const override {
    const Routing routing = (*inner_)(cx, bundle, x);
    std::vector<i64> ids(static_cast<std::size_t>(routing.logits.dim(0)));
    cx.device->read(bundle[row_ids_], ids.data());
    const auto rows_of = [&](const Tensor& tensor) {
      const std::vector<double> all = read_values(*cx.device, widened(cx, tensor));
      const auto width = static_cast<std::ptrdiff_t>(tensor.dim(1));
      Rows rows;
      for (auto row = all.begin(); row != all.end(); row += width) {
        rows.values.emplace_back(row, row + width);
      }
      for (const i64 id : ids) rows.samples.push_back(static_cast<u64>(row_sample(id)));
      return rows;
    };
    if (routing.by_expert) {
      note_rows_of_experts(rows_of(routing.logits));
      return routing;
    }
    for (auto& row : rows_of(routing.logits).values) note(std::move(row), top_k_);
    if (kept_ > 0) note_kept(cx, rows_of(routing.weights), routing.experts);
    return routing;
  }
  i64 do_choices(i64 top_k) const override { return inner_->choices(top_k); }
  i64 do_rows_per_sequence() const override { return inner_->rows_per_sequence(); }
  bool do_incremental() const override { return inner_->incremental(); }
  void do_end_step(Context& cx) override { inner_->end_step(cx); }

  static std::vector<Decision>& noted() {
    static std::vector<Decision> all;
    return all;
  }

 private:
  // Choices of a sequence that an expert keeps; 0: weights decide nothing.
  static i64 kept_by_weight(const Config& config, i64 tokens) {
    if (!config.capacity_factor || config.drop != "weight") return 0;
    const double share =
        static_cast<double>(tokens * config.top_k) / static_cast<double>(config.experts);
    return static_cast<i64>(std::ceil(share * *config.capacity_factor));
  }

  // By sequence and expert.
  using Groups = std::map<std::pair<u64, i64>, std::vector<double>>;

  static void note(std::vector<double> scores, i64 taken) {
    if (std::ssize(scores) <= taken) return;
    noted().push_back({std::move(scores), static_cast<std::size_t>(taken)});
  }
  void note_rows_of_experts(const Rows& logits) const {
    Groups groups;
    for (std::size_t row = 0; row < logits.values.size(); ++row) {
      const std::vector<double> shares = softmax(logits.values[row]);
      for (i64 e = 0; e < std::ssize(shares); ++e) {
        groups[{logits.samples[row], e}].push_back(shares[static_cast<std::size_t>(e)]);
      }
    }
    for (auto& [key, shares] : groups) note(std::move(shares), inner_->rows_per_sequence());
  }
  void note_kept(Context& cx, const Rows& weights, const Tensor& experts) const {
    std::vector<i32> chosen(static_cast<std::size_t>(experts.elements()));
    cx.device->read(experts, chosen.data());
    Groups groups;
    auto expert = chosen.begin();
    for (std::size_t row = 0; row < weights.values.size(); ++row) {
      for (const double weight : weights.values[row]) {
        groups[{weights.samples[row], *expert++}].push_back(weight);
      }
    }
    for (auto& [key, of_expert] : groups) note(std::move(of_expert), kept_);
  }

  i64 top_k_, kept_;
  Slot row_ids_;
  std::shared_ptr<Router> inner_;
};

// The same training with its router watched.
Sets watched(const Sets& sets) {
  Sets all = {kRouter + "type=\"watched\""};
  for (const std::string& set : sets) {
    all.push_back(set.starts_with(kRouter) ? kRouter + "inner." + set.substr(kRouter.size()) : set);
  }
  return all;
}

}  // namespace

double Decision::gap() const {
  std::vector<double> sorted = scores;
  std::ranges::sort(sorted, std::greater());
  return sorted.at(taken - 1) - sorted.at(taken);
}

const std::vector<Decision>& decisions(const Sets& sets) {
  static const std::unique_ptr<PluginHost> kHost = [] {
    auto loaded = load_plugins();
    loaded->add_builtin([](Registrar& registrar) {
      registrar.add<Router, WatchedRouter>("watched", "a router whose decisions are noted");
    });
    return loaded;
  }();
  static std::map<Sets, std::vector<Decision>> all;
  if (const auto found = all.find(sets); found != all.end()) return found->second;
  WatchedRouter::noted().clear();
  train(tiny_config(), watched(sets), {.steps = kTableSteps, .host = kHost.get()});
  return all[sets] = std::exchange(WatchedRouter::noted(), {});
}

RouterGaps router_gaps(const Sets& sets, const Sets& exact) {
  const std::vector<Decision>& got = decisions(sets);
  const std::vector<Decision>& want = decisions(exact);
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  RouterGaps gaps{.decisions = got.size(), .smallest = kInfinite, .noise = 0, .ratio = kInfinite};
  // Where an earlier choice was another one, other candidates meet.
  if (want.size() != got.size()) gaps.noise = kInfinite;
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    const std::vector<double>& scores = got[i].scores;
    double noise = scores.size() == want[i].scores.size() ? 0 : kInfinite;
    for (std::size_t j = 0; noise < kInfinite && j < scores.size(); ++j) {
      noise = std::max(noise, std::abs(scores[j] - want[i].scores[j]));
    }
    const double gap = got[i].gap();
    gaps.smallest = std::min(gaps.smallest, gap);
    gaps.noise = std::max(gaps.noise, noise);
    gaps.ratio = std::min(gaps.ratio, noise > 0 ? gap / noise : kInfinite);
  }
  if (gaps.noise == kInfinite) gaps.ratio = 0;
  return gaps;
}

std::string text(const RouterGaps& gaps) {
  return fmt::format(
      "of {} decisions the smallest gap is {:.3g}; scores differ by at most {:.3g}; a gap is at "
      "least {:.3g} times the noise of its scores",
      gaps.decisions,
      gaps.smallest,
      gaps.noise,
      gaps.ratio);
}

}  // namespace tessera::testing
