#include "tessera/device/collective_call.hpp"

#include <fmt/format.h>

#include "tessera/base/hash.hpp"

namespace tessera {

CollectiveCall CollectiveCall::of(const Collective& collective) {
  return {.bytes = collective.input.bytes(),
          .kind = collective.kind,
          .dtype = collective.input.dtype,
          .op = collective.op,
          .root = collective.root,
          .name = collective.name};
}

CollectiveCall CollectiveCall::of(CollectiveKind kind, const TensorArg& tensor, CallName name) {
  return {.bytes = tensor.bytes(), .kind = kind, .dtype = tensor.dtype, .name = name};
}

bool CollectiveCall::operator==(const CollectiveCall& other) const {
  if (kind != other.kind || bytes != other.bytes || dtype != other.dtype) return false;
  return moves_parts(kind) ||
         (name.hash() == other.name.hash() && op == other.op && root == other.root);
}

u64 CollectiveCall::hash() const {
  const bool all = !moves_parts(kind);
  const u64 numbers[] = {static_cast<u64>(kind),
                         static_cast<u64>(bytes),
                         static_cast<u64>(dtype),
                         all ? name.hash() : 0,
                         all ? static_cast<u64>(op) : 0,
                         all ? static_cast<u64>(root) : 0};
  return hash64({reinterpret_cast<const char*>(numbers), sizeof numbers});
}

std::string CollectiveCall::text() const {
  std::string text(collective_name(kind));
  if (!moves_parts(kind) || !name.view().empty()) text += fmt::format(" \"{}\"", name.view());
  if (kind == CollectiveKind::barrier) return text;
  text += fmt::format(" of {} bytes {}", bytes, dtype_name(dtype));
  if (kind == CollectiveKind::broadcast) text += fmt::format(" from member {}", root);
  constexpr std::string_view kOps[] = {"sum", "max", "min"};
  if (kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter) {
    text += fmt::format(", {}", kOps[static_cast<int>(op)]);
  }
  return text;
}

}  // namespace tessera
