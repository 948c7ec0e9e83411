#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/data/block_reader.hpp"
#include "kernel/data/json_document.hpp"

namespace tessera {

/// A document as its block has it.
struct ReadDocument {
  std::string_view id;  ///< its own, or "a.jsonl:118"
  std::string_view text;
};

/// Takes the documents of blocks apart. For one thread.
class BlockDocuments {
 public:
  /// `mends`: text that is no UTF-8 is taken: that of a file as it is, lines of JSON as
  /// mended_json() makes them.
  BlockDocuments(JsonFields fields, bool mends) : json_(std::move(fields)), mends_(mends) {}
  /// Calls `use` for each document, in order; blank lines are none. Throws Error naming file and
  /// line.
  void each(const InputBlock& block, const std::function<void(const ReadDocument&)>& use);

 private:
  void use_line(const InputBlock& block,
                std::string_view line,
                i64 number,
                const std::function<void(const ReadDocument&)>& use);
  JsonDocuments json_;
  bool mends_;
};

/// The texts of files, one after the other; the second: of those that are named as a build's input.
void read_corpus(const std::vector<InputFile>& files,
                 const JsonFields& fields,
                 const std::function<void(std::string_view)>& use);
void read_corpus(const std::vector<std::string>& names,
                 const JsonFields& fields,
                 const std::function<void(std::string_view)>& use);

}  // namespace tessera
