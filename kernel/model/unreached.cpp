#include "kernel/model/unreached.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "tessera/log.hpp"

namespace tessera {

void Unreached::begin(const std::vector<Parameter*>& parameters) {
  waiting_.clear();
  for (const Parameter* parameter : parameters) {
    if (!parameter->grad.defined() || parameter->grad.elements() == 0) continue;
    const TensorArg grad = parameter->grad.arg();
    const auto* begin = static_cast<const char*>(grad.address);
    waiting_[begin] = {begin + grad.bytes(), parameter};
  }
  all_ = waiting_.size();
}

void Unreached::launched(const Kernel& kernel, const void* args) {
  if (!backward_) return;
  const auto* tensors = static_cast<const TensorArg*>(args);
  for (int i = kernel.tensors - kernel.outputs; i < kernel.tensors; ++i) {
    if (!tensors[i]) continue;
    const auto* at = static_cast<const char*>(tensors[i].address);
    auto found = waiting_.upper_bound(at);
    if (found == waiting_.begin() || std::prev(found)->second.end <= at) continue;
    waiting_.erase(std::prev(found));
  }
}

void Unreached::end(const ModelParts& parts) {
  if (waiting_.size() == all_) return;  // a step that launched nothing by itself
  for (const ModelParts::Entry& entry : parts.parameters()) {
    const Parameter* parameter = entry.parameter.get();
    const bool waits = std::ranges::any_of(
        waiting_, [&](const auto& of) { return of.second.parameter == parameter; });
    if (!waits) continue;
    auto of = std::ranges::find(found_, entry.component, [](const auto& f) { return f.first; });
    if (of == found_.end()) of = found_.insert(found_.end(), {entry.component, {}});
    if (std::ranges::count(of->second, parameter->name) == 0) of->second.push_back(parameter->name);
  }
}

void Unreached::warn() const {
  constexpr std::size_t kShown = 3;
  for (const auto& [component, names] : found_) {
    const std::size_t shown = std::min(names.size(), kShown);
    log_warning(
        "{}: no backward pass gives \"{}\"{} a gradient, so {} nothing: an operation is not "
        "recorded on the tape, or the parameter is not used",
        component,
        fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), "\", \""),
        names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "",
        names.size() == 1 ? "it learns" : "they learn");
  }
}

}  // namespace tessera
