#pragma once
#include "kernel/config/config.hpp"
#include "tessera/schema.hpp"

namespace tessera {

/// What an entry says to a key: where a shell has taken the quotes of --set run.name=42, and the
/// key is a string, it is one.
Value written_value(const FieldSpec& spec, const Entry& entry);

/// The value of a path key that was written at `at`, as the component reads it: absolute, but for
/// words of the key, empty texts and what has "://". Throws ConfigError as Config::resolve_path.
Value path_value(const Config& config, const FieldSpec& spec, const Value& value, const Origin& at);

}  // namespace tessera
