#pragma once
#include <string>
#include <string_view>

#include <tessera/process_group.hpp>

namespace tessera::gloo_tcp {

/// What all members must agree on, and what both ends of one message of an exchange must; as texts
/// only for errors.
u64 call_hash(const Collective& collective);
u64 message_hash(CollectiveKind kind, const TensorArg& tensor);

/// What all members must agree on: "all_reduce "x" of 400 bytes fp32, sum, in tp[0,1]".
std::string call_text(const Collective& collective, const std::string& group);
/// What both ends of one message of an exchange must agree on.
std::string message_text(CollectiveKind kind, const TensorArg& tensor, const std::string& group);

}  // namespace tessera::gloo_tcp
