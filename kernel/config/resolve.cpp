#include "kernel/config/resolve.hpp"

#include <algorithm>
#include <iterator>

#include "kernel/config/checker.hpp"

namespace tessera {
namespace {

constexpr std::size_t kShown = 20;

/// Fills a RunConfig from a tree that holds defaults too. Sections with a wrong value are left as
/// they are.
class RunReader {
 public:
  RunReader(const ConfigTree& tree, const std::set<std::string>& doubtful)
      : tree_(tree), doubtful_(doubtful) {}
  RunConfig read() const;

 private:
  bool doubtful(const std::string& path) const { return doubtful_.contains(section_of(path)); }
  template <class S>
  S section(const std::string& name) const;
  template <class K>
  void fill(Component<K>& component, const std::string& path) const;
  template <class K>
  void fill_each(std::vector<Named<K>>& components, const std::string& table) const;

  const ConfigTree& tree_;
  const std::set<std::string>& doubtful_;
};

/// Reads the kernel's own keys of a section.
template <class S>
S RunReader::section(const std::string& name) const {
  S out;
  if (doubtful(name)) return out;
  for (const FieldSpec& spec : fields_of<S>()) {
    spec.assign(&out, *tree_.find(join_path(name, spec.name))->value);
  }
  return out;
}

template <class K>
void RunReader::fill(Component<K>& component, const std::string& path) const {
  if (doubtful(path)) return;
  component.type = std::get<std::string>(tree_.find(path + ".type")->value->data);
  component.path = path;
}

template <class K>
void RunReader::fill_each(std::vector<Named<K>>& components, const std::string& table) const {
  for (const std::string& name : tree_.children(table)) {
    Named<K> named{name, {}};
    fill(named.component, join_path(table, name));
    if (!named.component.type.empty()) components.push_back(std::move(named));
  }
}

RunConfig RunReader::read() const {
  RunConfig out;
  out.run = section<RunSection>("run");
  out.device = section<DeviceSection>("device");
  out.plugins = section<PluginsSection>("plugins");
  out.comm = section<CommSection>("comm");
  out.parallel = section<ParallelSection>("parallel");
  out.placement = section<PlacementSection>("placement");
  out.recompute = section<RecomputeSection>("recompute");
  out.batch = section<BatchSection>("batch");
  out.precision = section<PrecisionSection>("precision");
  out.checkpoint = section<CheckpointSection>("checkpoint");
  out.validation = section<ValidationSection>("validation");
  out.check = section<CheckSection>("check");
  fill(out.device.device, "device");
  fill(out.comm.communicator, "comm");
  fill(out.tokenizer, "tokenizer");
  fill(out.model, "model");
  fill(out.schedule, "schedule");
  fill(out.graph, "graph");
  fill(out.optimizer, "optimizer");
  fill(out.lr, "lr");
  fill(out.data, "data");
  fill_each(out.evaluations, "evaluations");
  fill_each(out.observers, "observers");
  return out;
}

// "model.block" is below "model", and below itself.
bool is_below(std::string_view path, std::string_view table) {
  return path.starts_with(table) && (path.size() == table.size() || path[table.size()] == '.');
}

}  // namespace

bool touches(const std::set<std::string>& paths, std::string_view path) {
  return std::ranges::any_of(
      paths, [&](const std::string& one) { return is_below(one, path) || is_below(path, one); });
}

CheckResult check(const Config& config, const Catalog& catalog) {
  Checker checker(config, catalog);
  checker.run();
  CheckResult out;
  out.problems = std::move(checker.problems);
  out.resolved.notices = std::move(checker.notices);
  out.resolved.slots = std::move(checker.slots);
  out.resolved.run = RunReader(checker.tree, checker.doubtful).read();
  out.resolved.doubtful = std::move(checker.doubtful);
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
  if (!result.problems.empty()) {
    Error(report(result.problems), ErrorKind::configuration).add(catalog.short_of()).raise();
  }
  return std::move(result.resolved);
}

}  // namespace tessera
