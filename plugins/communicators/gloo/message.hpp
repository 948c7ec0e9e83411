#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include <tessera/comm.hpp>

namespace tessera::gloo_tcp {

/// Up to here data travel with the header and need no second message.
inline constexpr i64 kInlineBytes = 8192;

/// What one member tells another about its part of a collective, before any large data: plain
/// data, sent as it is.
struct Header {
  u64 group;  ///< hash of its name and members
  u64 name_hash;
  i64 bytes;  ///< of the input
  i32 root;
  CollectiveKind kind;
  DType dtype;
  ReduceOp op;
  u8 unused;
  char name[88];  ///< shortened, for errors
};
static_assert(sizeof(Header) == 120);

struct Message {
  Header header;
  std::byte data[kInlineBytes];
};

/// Room for one message; its bytes are not set.
std::unique_ptr<Message> make_message();
/// A message with header and, when they are few, the bytes of `tensor`.
std::unique_ptr<Message> make_message(const Collective& collective,
                                      u64 group,
                                      const TensorArg& tensor);
/// How much of it is sent: the header, and the data when they are `with_data` and few.
i64 message_bytes(const Message& message, bool with_data);

i64 bytes_of(const TensorArg& tensor);
u64 hash_of(std::string_view text, u64 start = 0xcbf29ce484222325);
/// "all_reduce "x" of 400 bytes f32, sum".
std::string text_of(const Header& header);
/// Do both call the same collective on the same sizes?
bool same_call(const Header& a, const Header& b);

}  // namespace tessera::gloo_tcp
