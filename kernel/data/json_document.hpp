#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace tessera {

/// Names of the fields of a JSON object that a document is read from.
struct JsonFields {
  std::string text_field = "text", id_field = "id";
};

/// Reads documents from lines of JSON, each an object with a text and maybe a name. For one thread.
class JsonDocuments {
 public:
  /// Bytes that have to follow a line in memory, whatever they hold.
  static constexpr std::size_t kPadding = 64;

  explicit JsonDocuments(JsonFields fields);
  ~JsonDocuments();

  struct Read {
    std::string_view text, id;  ///< id: empty where the object has none; valid until the next call
  };
  /// Throws Error that begins with `where`: the line is no JSON or no object, has no such text, has
  /// a field twice, is nested too deeply or is no UTF-8.
  Read read(std::string_view line, const std::string& where);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// `line` with U+FFFD in place of bytes that are no UTF-8 and of escaped halves of characters
/// ("\ud800"), for those who would rather read such lines than refuse them.
std::string mended_json(std::string_view line);

}  // namespace tessera
