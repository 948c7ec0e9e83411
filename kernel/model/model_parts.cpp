#include "kernel/model/model_parts.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernel/model/host_values.hpp"
#include "kernel/model/initialize.hpp"
#include "tessera/error.hpp"
#include "tessera/operation.hpp"
#include "tessera/ops/elementwise.hpp"

namespace tessera {

namespace {

// One placement for each axis, and none forgotten.
void check_placement(const ParameterSpec& spec, const std::string& name) {
  const auto cut = [&](Axis axis) {
    return std::ranges::find(spec.split, axis, &Split::axis) != spec.split.end();
  };
  require(
      spec.placement.given || cut(Axis::tensor) || cut(Axis::expert) || cut(Axis::expert_tensor),
      "parameter \"{}\" {} says nothing of the tensor axis: cut it with a Split, or give its "
      "placement, .placement = build.tensor_region().per_row() where it is applied to each row "
      "(a norm, a bias of a row-parallel linear)",
      name,
      spec.shape);
  for (const Axis axis : spec.placement.partial) {
    require(!cut(axis),
            "parameter \"{}\" {} is cut along {} and summed over it; it can be one of the two",
            name,
            spec.shape,
            axis_name(axis));
  }
}

std::string text_of(const Init& init) {
  return init.kind == Init::normal ? fmt::format("normal, deviation {}", init.stddev)
                                   : fmt::format("{}", init.value);
}

// Stages hold a shared parameter apart, and each makes, sums and updates it as declared there.
void check_declared_alike(const ModelParts::Entry& entry, const ParameterSpec& spec) {
  const Parameter& known = *entry.parameter;
  const auto differ = [&](std::string_view what, const std::string& a, const std::string& b) {
    fail_config("shared parameter \"{}\" is declared with {} {}{} and {}",
                known.name,
                what,
                a,
                entry.component.empty() ? "" : fmt::format(" by {}", entry.component),
                b);
  };
  if (known.logical != spec.shape) {
    differ("shape", fmt::format("{}", known.logical), fmt::format("{}", spec.shape));
  }
  if (known.init != spec.init) {
    differ("initial values", text_of(known.init), text_of(spec.init));
  }
  if (known.tags != spec.tags) {
    differ("tags",
           fmt::format("[{}]", fmt::join(known.tags, ", ")),
           fmt::format("[{}]", fmt::join(spec.tags, ", ")));
  }
  if (entry.split == spec.split && entry.placement == spec.placement) return;
  fail_config("shared parameter \"{}\" is declared with two splits or placements", known.name);
}

// Along the pipeline a stage adds what its layers do; experts are counted by the dense axes.
void check_partial(std::string_view what, std::string_view name, const std::vector<Axis>& axes) {
  for (const Axis axis : axes) {
    require(axis == Axis::tensor || axis == Axis::context || axis == Axis::data,
            "{} \"{}\" is partial over {}; it can be over tp, cp and dp",
            what,
            name,
            axis_name(axis));
  }
}

}  // namespace

int ModelParts::index_of(std::vector<std::string>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<int>(found - names.begin());
  names.emplace_back(name);
  return static_cast<int>(names.size() - 1);
}

int ModelParts::add(const LossInfo& loss) {
  const auto found = std::ranges::find(losses_, loss.name, &LossInfo::name);
  if (found == losses_.end()) {
    losses_.push_back(loss);
    return static_cast<int>(losses_.size() - 1);
  }
  if (!found->same(loss)) fail_config("the loss \"{}\" is declared in two ways", loss.name);
  return static_cast<int>(found - losses_.begin());
}

int ModelParts::add(const MetricInfo& metric) {
  const auto found = std::ranges::find(metrics_, metric.name, &MetricInfo::name);
  if (found == metrics_.end()) {
    metrics_.push_back(metric);
    return static_cast<int>(metrics_.size() - 1);
  }
  if (!found->same(metric)) fail_config("metric \"{}\" is reduced in two ways", metric.name);
  return static_cast<int>(found - metrics_.begin());
}

int ModelParts::add(const CountInfo& counts) {
  const auto found = std::ranges::find(counts_, counts.scope, &CountInfo::scope);
  if (found == counts_.end()) {
    counts_.push_back(counts);
    return static_cast<int>(counts_.size() - 1);
  }
  require(found->spec.size == counts.spec.size && found->spec.sets == counts.spec.sets,
          "{} counts two things: a component declares its counts once",
          counts.scope);
  return static_cast<int>(found - counts_.begin());
}

int ModelParts::loss(const LossSpec& spec, std::string_view component) {
  check_partial("loss", spec.name, spec.partial);
  require(spec.mask.empty() || spec.weight == LossWeight::field,
          "loss \"{}\" has a mask, and is weighted by something else",
          spec.name);
  require(spec.metric.empty() || spec.auxiliary,
          "loss \"{}\" is the run's, so no metric shows it",
          spec.name);
  return add({.name = std::string(spec.name),
              .weight = spec.weight,
              .auxiliary = spec.auxiliary,
              .partial = spec.partial,
              .component = std::string(component),
              .mask = std::string(spec.mask),
              .most = spec.most,
              .most_key = std::string(spec.most_key),
              .metric = std::string(spec.metric.empty() ? spec.name : spec.metric)});
}

int ModelParts::metric(const MetricSpec& spec) {
  check_partial("metric", spec.name, spec.partial);
  return add(MetricInfo{std::string(spec.name), spec.reduce, spec.partial, spec.of_validation});
}

int ModelParts::counts(const CountSpec& spec, const std::string& scope) {
  require(spec.size > 0 && spec.sets > 0 && spec.metrics != nullptr,
          "{} counts {} integers in {} sets: it needs at least one, and metrics made of them",
          scope,
          spec.size,
          spec.sets);
  return add(CountInfo{scope, spec});
}

void ModelParts::declare(const std::vector<LossInfo>& losses,
                         const std::vector<MetricInfo>& metrics,
                         const std::vector<CountInfo>& counts) {
  for (const LossInfo& loss : losses) add(loss);
  for (const MetricInfo& metric : metrics) add(metric);
  for (const CountInfo& of : counts) add(of);
}

Buffer& ModelParts::declare(const BufferSpec& spec, const std::string& scope, DType main) {
  const bool constant = static_cast<bool>(spec.values);
  require(!constant || !spec.saved, "constant \"{}\" of {} cannot be saved", spec.name, scope);
  require(constant || spec.share.empty(), "\"{}\" is shared, and no constant", spec.share);
  auto buffer = std::make_unique<Buffer>();
  buffer->name = scope.empty() ? std::string(spec.name) : fmt::format("{}.{}", scope, spec.name);
  if (!spec.share.empty()) {
    buffer->name = spec.share;
    const auto known = std::ranges::find(buffers_, buffer->name, [](auto& b) { return b->name; });
    if (known != buffers_.end()) {
      require((*known)->constant() && (*known)->logical == spec.shape &&
                  (*known)->dtype == spec.dtype.value_or(main),
              "constant \"{}\" is declared with two shapes or dtypes",
              buffer->name);
      return **known;
    }
  }
  require(
      find(buffer->name) == nullptr &&
          std::ranges::none_of(buffers_, [&](const auto& b) { return b->name == buffer->name; }),
      "\"{}\" is declared twice",
      buffer->name);
  buffer->dtype = spec.dtype.value_or(main);
  require(!spec.saved || buffer->dtype == main,
          "buffer \"{}\" is saved, so it has the dtype of main parameters, {}, and not {}",
          buffer->name,
          dtype_name(main),
          dtype_name(buffer->dtype));
  buffer->logical = buffer->local = spec.shape;
  buffer->initial = spec.initial;
  buffer->saved = spec.saved;
  buffer->values = spec.values;
  buffer->layout = ParameterLayout(spec.shape, {}, Placement::replicated(), mesh_);
  return *buffers_.emplace_back(std::move(buffer));
}

void ModelParts::allocate_buffers(Device& device) {
  for (const auto& b : buffers_) {
    b->value = Tensor::allocate(
        device, device.pool(), device.stream(), b->local, b->dtype, Category::parameters);
  }
}

void ModelParts::initialize_buffers(Device& device, bool saved) {
  for (const auto& b : buffers_) {
    if (b->saved && !saved) continue;
    if (b->constant()) {
      write_values(device, b->value, initial_values(*b));
      continue;
    }
    Operation<FillArgs>(device).launch(
        device.stream(), device.pool(), {b->value.arg(), b->initial});
  }
}

Parameter& ModelParts::declare(const ParameterSpec& spec,
                               const std::string& scope,
                               int layer,
                               const std::string& component) {
  const std::string own =
      scope.empty() ? std::string(spec.name) : fmt::format("{}.{}", scope, spec.name);
  const std::string name = spec.share.empty() ? own : std::string(spec.share);
  check_placement(spec, name);
  if (const auto known = by_name_.find(name); known != by_name_.end()) {
    Entry& entry = parameters_[known->second];
    require(!spec.share.empty(), "parameter \"{}\" is declared twice", name);
    check_declared_alike(entry, spec);
    entry.layers.push_back(layer);
    entry.parameter->linear |= spec.linear;
    return *entry.parameter;
  }
  auto parameter = std::make_unique<Parameter>();
  parameter->name = name;
  parameter->logical = spec.shape;
  parameter->init = spec.init;
  parameter->tags = spec.tags;
  parameter->active = spec.active;
  parameter->linear = spec.linear;
  const auto holders = holders_.find(name);
  try {
    parameter->layout =
        ParameterLayout(spec.shape,
                        spec.split,
                        spec.placement,
                        mesh_,
                        holders != holders_.end() ? holders->second : std::vector<int>());
  } catch (const ConfigError& error) {
    fail_config("parameter \"{}\" {}: {}", name, spec.shape, error.what());
  }
  parameter->local = parameter->layout.storage();
  by_name_.emplace(name, parameters_.size());
  logical_elements_ += spec.shape.elements();
  parameters_.push_back({std::move(parameter), {layer}, component, spec.split, spec.placement});
  return *parameters_.back().parameter;
}

Parameter* ModelParts::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found != by_name_.end() ? parameters_[found->second].parameter.get() : nullptr;
}

std::vector<Parameter*> ModelParts::parameter_list() const {
  std::vector<Parameter*> list;
  for (const Entry& entry : parameters_) list.push_back(entry.parameter.get());
  return list;
}

std::vector<ParameterName> ModelParts::parameter_names() const {
  std::vector<ParameterName> names;
  for (const Entry& entry : parameters_) {
    names.push_back({entry.parameter->name, entry.parameter->tags});
  }
  return names;
}

i64 ModelParts::active_elements() const {
  double total = 0;
  for (const Entry& entry : parameters_) {
    total += entry.parameter->active * static_cast<double>(entry.parameter->logical.elements());
  }
  return std::llround(total);
}

}  // namespace tessera
