#include "kernel/config/resolve.hpp"

#include <algorithm>
#include <iterator>

#include "kernel/config/checker.hpp"

namespace tessera {
namespace {

constexpr std::size_t kShown = 20;

/// Reads the kernel's own keys of a section, where the tree holds defaults too.
template <class S>
S section(const ConfigTree& tree, std::string_view name) {
  S out;
  for (const FieldSpec& spec : fields_of<S>()) {
    spec.assign(&out, *tree.find(join_path(name, spec.name))->value);
  }
  return out;
}

template <class K>
void fill(Component<K>& component, const ConfigTree& tree, const std::string& path) {
  component.type = std::get<std::string>(tree.find(path + ".type")->value->data);
  component.path = path;
}

RunConfig run_config(const ConfigTree& tree) {
  RunConfig out;
  out.run = section<RunSection>(tree, "run");
  out.device = section<DeviceSection>(tree, "device");
  out.plugins = section<PluginsSection>(tree, "plugins");
  out.comm = section<CommSection>(tree, "comm");
  out.parallel = section<ParallelSection>(tree, "parallel");
  out.placement = section<PlacementSection>(tree, "placement");
  out.recompute = section<RecomputeSection>(tree, "recompute");
  out.batch = section<BatchSection>(tree, "batch");
  out.precision = section<PrecisionSection>(tree, "precision");
  out.checkpoint = section<CheckpointSection>(tree, "checkpoint");
  out.validation = section<ValidationSection>(tree, "validation");
  out.check = section<CheckSection>(tree, "check");
  fill(out.device.device, tree, "device");
  fill(out.comm.communicator, tree, "comm");
  fill(out.tokenizer, tree, "tokenizer");
  fill(out.model, tree, "model");
  fill(out.schedule, tree, "schedule");
  fill(out.graph, tree, "graph");
  fill(out.optimizer, tree, "optimizer");
  fill(out.lr, tree, "lr");
  fill(out.data, tree, "data");
  for (const std::string& name : tree.children("observers")) {
    ConfiguredObserver named{name, {}};
    fill(named.observer, tree, "observers." + name);
    if (!named.observer.type.empty()) out.observers.push_back(std::move(named));
  }
  return out;
}

}  // namespace

CheckResult check(const Config& config, const Catalog& catalog) {
  Checker checker(config, catalog);
  checker.run();
  CheckResult out;
  out.problems = std::move(checker.problems);
  out.resolved.notices = config.notices();
  std::ranges::move(checker.notices, std::back_inserter(out.resolved.notices));
  if (out.problems.empty()) out.resolved.run = run_config(checker.tree);
  out.resolved.tree = std::make_shared<const ConfigTree>(std::move(checker.tree));
  return out;
}

std::string report(const std::vector<Problem>& problems) {
  std::string out;
  for (std::size_t i = 0; i < problems.size() && i < kShown; ++i) {
    out += (out.empty() ? "" : "\n") + problems[i].text;
  }
  if (problems.size() > kShown) {
    out += fmt::format("\n... and {} more problems", problems.size() - kShown);
  }
  return out;
}

Resolved resolve(const Config& config, const Catalog& catalog) {
  CheckResult result = check(config, catalog);
  if (!result.problems.empty()) throw ConfigError(report(result.problems));
  return std::move(result.resolved);
}

}  // namespace tessera
