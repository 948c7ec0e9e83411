#pragma once
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/base/value.hpp"

namespace tessera {

/// Settings by dotted name: {"model.hidden": 768} here, {"n_embd": 768} elsewhere.
using Settings = std::map<std::string, Value, std::less<>>;

/// The settings of a JSON object: keys of nested objects are dotted, null and empty objects are
/// left out, an object inside an array is its JSON text. Throws Error naming `file` where the text
/// is no object or too deep.
TESSERA_API Settings parse_settings(std::string_view json, const std::string& file);

/// Are both the same? 1 is 1.0.
TESSERA_API bool same_value(const Value& a, const Value& b);

/// The settings of a file of another program, and what their reader makes of each: it is used, it
/// is harmless, or it is refused. require_known() then throws for a key that is none of these, so
/// that nothing which changes results is passed over:
///
///     Claims claims("m/config.json", parse_settings(text, "m/config.json"));
///     const i64 layers = claims.integer("n_layer");       // used
///     claims.only("scale_attn_weights", true);            // used, any other value is refused
///     claims.harmless({"use_cache", "summary_*"});        // "*" at the end: any rest
///     claims.refuse("auto_map.*", "models with code of their own are not read");
///     claims.require_known("the converter \"mine\"");     // config.json has n_ctx = 8, which ...
///
/// All errors are ConfigError and name file, key and value. For one thread.
class TESSERA_API Claims {
 public:
  Claims(std::string file, Settings settings);

  const std::string& file() const { return file_; }
  const Settings& all() const { return settings_; }

  /// The value of a key that is used; nullptr where the file has none.
  const Value* find(std::string_view key);
  /// The same; where there is none, `otherwise`, or an error.
  Value get(std::string_view key, const Value& otherwise);
  Value get(std::string_view key);
  i64 integer(std::string_view key);
  bool flag(std::string_view key, bool otherwise);
  /// The key is absent or has this value.
  void only(std::string_view key, const Value& value);
  /// Keys that change nothing here.
  void harmless(std::initializer_list<std::string_view> patterns);
  /// Keys that must be absent; `why` ends the error.
  void refuse(std::string_view pattern, std::string_view why);
  /// `reader` names who does not know the keys that are left.
  void require_known(std::string_view reader) const;

 private:
  template <class F>
  void for_matches(std::string_view pattern, F&& f);

  std::string file_;
  Settings settings_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace tessera
