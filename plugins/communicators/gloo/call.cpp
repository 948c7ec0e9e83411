#include "call.hpp"

#include <tessera/base/hash.hpp>
#include <tessera/error.hpp>

namespace tessera::gloo_tcp {

namespace {

template <std::size_t n>
u64 hash_of_numbers(const u64 (&numbers)[n]) {
  return hash64({reinterpret_cast<const char*>(numbers), sizeof numbers});
}

}  // namespace

u64 call_hash(const Collective& collective) {
  return hash_of_numbers({static_cast<u64>(collective.kind),
                          collective.name.hash(),
                          static_cast<u64>(collective.input.bytes()),
                          static_cast<u64>(collective.input.dtype),
                          static_cast<u64>(collective.op),
                          static_cast<u64>(collective.root)});
}

u64 message_hash(CollectiveKind kind, const TensorArg& tensor) {
  return hash_of_numbers(
      {static_cast<u64>(kind), static_cast<u64>(tensor.bytes()), static_cast<u64>(tensor.dtype)});
}

std::string call_text(const Collective& collective, const std::string& group) {
  const CollectiveKind kind = collective.kind;
  std::string text = fmt::format("{} \"{}\"", collective_name(kind), collective.name.view());
  if (kind != CollectiveKind::barrier) {
    const TensorArg& input = collective.input;
    text += fmt::format(" of {} bytes {}", input.bytes(), dtype_name(input.dtype));
  }
  if (kind == CollectiveKind::broadcast) text += fmt::format(" from member {}", collective.root);
  constexpr std::string_view kOps[] = {"sum", "max", "min"};
  if (kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter) {
    text += fmt::format(", {}", kOps[static_cast<int>(collective.op)]);
  }
  return text + ", in " + group;
}

std::string message_text(CollectiveKind kind, const TensorArg& tensor, const std::string& group) {
  return fmt::format("{} of {} bytes {}, in {}",
                     collective_name(kind),
                     tensor.bytes(),
                     dtype_name(tensor.dtype),
                     group);
}

}  // namespace tessera::gloo_tcp
