#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// One configuration value: a plain TOML scalar or an array of them.
struct TESSERA_API Value {
  using Array = std::vector<Value>;
  std::variant<bool, i64, double, std::string, Array> data;

  Value() : data(false) {}
  Value(bool v) : data(v) {}                           // NOLINT(google-explicit-constructor)
  Value(int v) : data(static_cast<i64>(v)) {}          // NOLINT(google-explicit-constructor)
  Value(i64 v) : data(v) {}                            // NOLINT(google-explicit-constructor)
  Value(double v) : data(v) {}                         // NOLINT(google-explicit-constructor)
  Value(const char* v) : data(std::string(v)) {}       // NOLINT(google-explicit-constructor)
  Value(std::string v) : data(std::move(v)) {}         // NOLINT(google-explicit-constructor)
  Value(std::string_view v) : data(std::string(v)) {}  // NOLINT(google-explicit-constructor)
  Value(Array v) : data(std::move(v)) {}               // NOLINT(google-explicit-constructor)
  // Defined in libtessera, so that plugins need not compile them.
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();

  /// "boolean", "integer", "float", "string" or "array".
  std::string_view type_name() const;
  /// The value as TOML text: `1e-3`, `"adamw"`, `[1, 2]`. Reads back as the same value.
  std::string text() const;
  bool operator==(const Value& other) const = default;
};

/// Values that a parent hands to a child's *given* fields, and overrides of its defaults.
using Given = std::vector<std::pair<std::string, Value>>;

/// A component's table in the resolved configuration. Owned by the host; only valid while a
/// factory runs. Keys are relative to the table and may be dotted for nested tables.
class TESSERA_API ConfigNode {
 public:
  virtual ~ConfigNode();
  /// Absolute path of the table, "model.block.attention"; empty for the root.
  virtual std::string path() const = 0;
  /// The value of a key of this table; nullptr when it is not set.
  virtual const Value* find(std::string_view key) const = 0;
  /// The value at an absolute path, for fields declared `from("model.hidden")`. Defaults of the
  /// component at that path are included. nullptr when neither is there.
  virtual const Value* absolute(std::string_view path) const = 0;
  /// Names of the sub-tables directly below `key`, in file order.
  virtual std::vector<std::string> tables(std::string_view key) const = 0;
  /// The sub-table at a relative key (it may be empty).
  virtual std::unique_ptr<ConfigNode> child(std::string_view key) const = 0;
  /// Where a key was written: "configs/x.toml:12:3", "--set #1", "default"; for errors.
  virtual std::string origin(std::string_view key) const = 0;
};

/// The absolute path of a key: "model" and "hidden" give "model.hidden". The root's path is empty.
TESSERA_API std::string join_path(std::string_view table, std::string_view key);

}  // namespace tessera
