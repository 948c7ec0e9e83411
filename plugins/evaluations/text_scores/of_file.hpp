#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "tessera/evaluation.hpp"
#include "tessera/io/data_file.hpp"
#include "tessera/schema.hpp"

namespace tessera {

/// The key of every evaluation of one file.
struct FileKeys {
  std::string data;
};
template <class C>
void describe_file(Schema<C>& s, std::string_view doc) {
  s.field("data", &C::data, doc).is_path().required();
}

/// An evaluation of one file of texts.
class OfFile : public EvaluationTask {
 protected:
  OfFile(const FileKeys& keys, const EvaluationArguments& arguments)
      : file_(keys.data, "data"), tokenizer_(arguments.tokenizer) {}
  const DataFile& file() const { return file_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  DataFile file_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace tessera
