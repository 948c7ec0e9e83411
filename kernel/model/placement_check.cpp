#include "kernel/model/placement_check.hpp"

#include <algorithm>
#include <vector>

#include "tessera/device/core_ops.hpp"

namespace tessera {

void PlacementCheck::begin(const Mesh& mesh, const std::vector<Parameter*>& parameters) {
  if (mesh.size(Axis::tensor) == 1) return;
  mesh_ = &mesh;
  for (const Parameter* parameter : parameters) {
    const ParameterLayout& layout = parameter->layout;
    // Experts get rows of all ranks that share them, whatever their tensor coordinate.
    const bool differs = layout.cut(Axis::tensor) || layout.expert();
    set(parameter->compute.arg(), differs);
    if (differs || layout.partial(Axis::tensor)) continue;
    if (!parameter->grad.defined()) continue;
    const Bytes bytes = bytes_of(parameter->grad.arg());
    equal_gradients_[bytes.begin] = {bytes.end, parameter};
  }
}

namespace {

// Does `part` lie in `whole`, as a replica's shard does? Then every element stays as it was.
bool in_place(const TensorArg& part, const TensorArg& whole) {
  const auto* begin = static_cast<const char*>(whole.address);
  const auto* at = static_cast<const char*>(part.address);
  return at >= begin && at < begin + whole.bytes();
}

}  // namespace

PlacementCheck::Bytes PlacementCheck::bytes_of(const TensorArg& tensor) {
  i64 elements = tensor.elements() == 0 ? 0 : 1;
  for (int i = 0; i < tensor.rank && elements > 0; ++i) {
    elements += (tensor.shape[i] - 1) * tensor.strides[i];
  }
  const auto* begin = static_cast<const char*>(tensor.address);
  return {begin, begin + elements * dtype_size(tensor.dtype)};
}

// The bytes of a view without those of its gaps, which belong to other values: a slice of features
// has a run for each row.
std::vector<PlacementCheck::Bytes> PlacementCheck::runs_of(const TensorArg& tensor) {
  if (tensor.elements() == 0) return {};
  int outer = tensor.rank;  // dimensions before the dense ones
  i64 run = 1;
  while (outer > 0 && (tensor.shape[outer - 1] == 1 || tensor.strides[outer - 1] == run)) {
    run *= tensor.shape[--outer];
  }
  std::vector<i64> begins = {0};  // in elements
  for (int i = 0; i < outer; ++i) {
    if (tensor.strides[i] == 0) continue;  // the same bytes again
    std::vector<i64> next;
    next.reserve(begins.size() * static_cast<std::size_t>(tensor.shape[i]));
    for (const i64 begin : begins) {
      for (i64 k = 0; k < tensor.shape[i]; ++k) next.push_back(begin + k * tensor.strides[i]);
    }
    begins = std::move(next);
  }
  const auto* address = static_cast<const char*>(tensor.address);
  const i64 size = dtype_size(tensor.dtype);
  std::vector<Bytes> runs;
  runs.reserve(begins.size());
  for (const i64 begin : begins) {
    runs.push_back({address + begin * size, address + (begin + run) * size});
  }
  return runs;
}

bool PlacementCheck::differs(Bytes bytes) const {
  const auto after = differ_.lower_bound(bytes.end);
  return after != differ_.begin() && std::prev(after)->second > bytes.begin;
}

// Integers are row ids and routing: they come from the host, which writes memory unseen.
bool PlacementCheck::differs(const TensorArg& tensor) const {
  if (!tensor || !is_floating(tensor.dtype) || !differs(bytes_of(tensor))) return false;
  return std::ranges::any_of(runs_of(tensor), [&](Bytes run) { return differs(run); });
}

void PlacementCheck::set(const TensorArg& tensor, bool differs) {
  for (const Bytes run : runs_of(tensor)) set(run, differs);
}

PlacementCheck::Ranges::iterator PlacementCheck::first_beyond(const char* address) {
  auto at = differ_.lower_bound(address);
  return at != differ_.begin() && std::prev(at)->second > address ? std::prev(at) : at;
}

void PlacementCheck::set(Bytes bytes, bool differs) {
  if (bytes.begin == bytes.end) return;
  auto at = first_beyond(bytes.begin);
  while (at != differ_.end() && at->first < bytes.end) {
    const auto [begin, end] = *at;
    at = differ_.erase(at);
    if (begin < bytes.begin) differ_[begin] = bytes.begin;
    if (end > bytes.end) at = std::next(differ_.emplace(bytes.end, end).first);
  }
  if (!differs) return;
  // Runs that touch become one: a tensor that was written row by row is one range again.
  if (at != differ_.end() && at->first == bytes.end) {
    bytes.end = at->second;
    at = differ_.erase(at);
  }
  if (at != differ_.begin() && std::prev(at)->second == bytes.begin) {
    std::prev(at)->second = bytes.end;
  } else {
    differ_.emplace_hint(at, bytes.begin, bytes.end);
  }
}

// A bucket of gradients that is sent in another dtype holds parameters of both sorts.
void PlacementCheck::copied(const Kernel& kernel, const TensorArg& from, const TensorArg& to) {
  const Bytes in = bytes_of(from), out = bytes_of(to);
  const i64 read = dtype_size(from.dtype), written = dtype_size(to.dtype);
  const auto there = [&](const char* at) {
    return out.begin + (std::clamp(at, in.begin, in.end) - in.begin) / read * written;
  };
  std::vector<Bytes> pieces;
  for (auto at = first_beyond(in.begin); at != differ_.end() && at->first < in.end; ++at) {
    pieces.push_back({there(at->first), there(at->second)});
  }
  set(out, false);
  for (const Bytes piece : pieces) {
    check_gradient(kernel, piece);
    set(piece, true);
  }
}

void PlacementCheck::check_gradient(const Kernel& kernel, Bytes output) {
  auto found = equal_gradients_.lower_bound(output.end);
  if (found == equal_gradients_.begin()) return;
  --found;
  if (found->second.end <= output.begin) return;
  const Parameter* parameter = found->second.parameter;
  problems_.push_back(
      {parameter,
       fmt::format(
           "parameter \"{}\": its gradient (of \"{}\") is not the same on the ranks of the tensor "
           "group, and no sum over them is declared; what is applied to rows between tensor "
           "regions needs .placement = build.tensor_region().per_row(), and what goes into a "
           "region has to enter() it",
           parameter->name,
           kernel.operation)});
  equal_gradients_.erase(found);
}

void PlacementCheck::launched(const Kernel& kernel, const void* args) {
  if (mesh_ == nullptr) return;
  const auto* tensors = static_cast<const TensorArg*>(args);
  if (kernel.operation == CopyArgs::kName && is_floating(tensors[0].dtype) &&
      is_floating(tensors[1].dtype) && tensors[0].is_dense() && tensors[1].is_dense()) {
    copied(kernel, tensors[0], tensors[1]);
    return;
  }
  const int inputs = kernel.tensors - kernel.outputs;
  const bool any =
      std::any_of(tensors, tensors + inputs, [&](const TensorArg& t) { return differs(t); });
  for (int i = inputs; i < kernel.tensors; ++i) {
    if (!tensors[i]) continue;
    if (any) check_gradient(kernel, bytes_of(tensors[i]));
    set(tensors[i], any);
  }
}

void PlacementCheck::started(const GroupSpec& group, const Collective& collective) {
  if (mesh_ == nullptr) return;
  const auto coordinate = [&](i64 rank) { return mesh_->ranks().coordinate(rank, Axis::tensor); };
  const bool across = std::ranges::any_of(group.members, [&](i64 member) {
    return coordinate(member) != mesh_->coordinate(Axis::tensor);
  });
  switch (collective.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast:
      if (across) set(collective.input, false);
      return;
    case CollectiveKind::all_gather:
      if (!across && in_place(collective.input, collective.output)) return;
      set(collective.output, !across && differs(collective.input));
      return;
    case CollectiveKind::reduce_scatter:
      if (!across && in_place(collective.output, collective.input)) return;
      set(collective.output, across || differs(collective.input));
      return;
    case CollectiveKind::all_to_all:
    case CollectiveKind::exchange: {
      const bool any = std::ranges::any_of(
          collective.sends, [&](const Transfer& sent) { return differs(sent.tensor); });
      for (const Transfer& received : collective.receives) set(received.tensor, across || any);
      return;
    }
    case CollectiveKind::barrier:
      return;
  }
}

}  // namespace tessera
