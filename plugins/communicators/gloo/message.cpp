#include "message.hpp"

#include <algorithm>
#include <cstring>

#include <tessera/error.hpp>

namespace tessera::gloo_tcp {

i64 bytes_of(const TensorArg& tensor) {
  return tensor ? tensor.elements() * dtype_size(tensor.dtype) : 0;
}

u64 hash_of(std::string_view text, u64 start) {  // FNV-1a
  for (const char c : text) start = (start ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return start;
}

std::unique_ptr<Message> make_message() { return std::make_unique_for_overwrite<Message>(); }

std::unique_ptr<Message> make_message(const Collective& collective,
                                      u64 group,
                                      const TensorArg& tensor) {
  auto message = make_message();
  Header& header = message->header;
  header = {};
  header.group = group;
  header.name_hash = hash_of(collective.name);
  header.bytes = bytes_of(tensor);
  header.root = collective.root;
  header.kind = collective.kind;
  header.dtype = tensor.dtype;
  header.op = collective.op;
  const std::size_t length = std::min(collective.name.size(), sizeof header.name - 1);
  std::memcpy(header.name, collective.name.data(), length);
  if (header.bytes > 0 && header.bytes <= kInlineBytes) {
    std::memcpy(message->data, tensor.address, static_cast<std::size_t>(header.bytes));
  }
  return message;
}

i64 message_bytes(const Message& message, bool with_data) {
  const i64 bytes = message.header.bytes;
  return static_cast<i64>(sizeof(Header)) + (with_data && bytes <= kInlineBytes ? bytes : 0);
}

std::string text_of(const Header& header) {
  const std::string_view name(header.name, strnlen(header.name, sizeof header.name));
  std::string text = fmt::format("{} \"{}\"", collective_name(header.kind), name);
  if (header.kind == CollectiveKind::barrier) return text;
  text += fmt::format(" of {} bytes {}", header.bytes, dtype_name(header.dtype));
  if (header.kind == CollectiveKind::broadcast) text += fmt::format(" from member {}", header.root);
  constexpr std::string_view kOps[] = {"sum", "max", "min"};
  if (header.kind == CollectiveKind::all_reduce || header.kind == CollectiveKind::reduce_scatter) {
    text += fmt::format(", {}", kOps[static_cast<int>(header.op)]);
  }
  return text;
}

bool same_call(const Header& a, const Header& b) {
  return a.group == b.group && a.kind == b.kind && a.name_hash == b.name_hash &&
         a.bytes == b.bytes && a.dtype == b.dtype && a.op == b.op && a.root == b.root;
}

}  // namespace tessera::gloo_tcp
