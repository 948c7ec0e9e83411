#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tessera/data.hpp"
#include "tessera/io/token_file.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {

/// Whatever is a number below a million is its id.
class NumberTokenizer final : public Tokenizer {
 public:
  explicit NumberTokenizer(std::string name = "numbers") : name_(std::move(name)) {}
  i64 do_vocabulary() const override { return 1'000'000; }
  std::string do_fingerprint() const override { return name_; }
  std::vector<i32> do_encode(std::string_view text) const override {
    return {std::stoi(std::string(text))};
  }
  std::string do_decode(const std::vector<i32>& ids) const override {
    return std::to_string(ids.at(0));
  }

 private:
  std::string name_;
};

/// Documents of these lengths, one sequence each; ids count on from `first`.
inline void write_documents(const std::string& prefix,
                            const std::vector<int>& lengths,
                            i32 first = 0,
                            const std::string& tokenizer = "",
                            TokenType type = TokenType::i32) {
  TokenFileWriter writer(prefix, type);
  std::vector<i32> ids;
  for (const int length : lengths) {
    ids.clear();
    for (int i = 0; i < length; ++i) ids.push_back(first++);
    writer.add(ids);
    writer.end_document();
  }
  writer.finish(tokenizer);
}

struct IndexedSample {
  std::vector<i64> tokens, targets, positions;
  std::vector<u8> mask;
  std::vector<i32> first, last;
  bool operator==(const IndexedSample&) const = default;
};

/// The fields that a dataset has; the others stay empty.
inline IndexedSample read_indexed(const Dataset& data, SampleSet set, i64 ordinal, i64 length) {
  const auto n = static_cast<std::size_t>(length);
  IndexedSample sample;
  SampleBuffers out;
  for (const FieldInfo& field : data.fields()) {
    const auto give = [&](auto& values) {
      values.assign(n, 99);
      out.fields.push_back(values.data());
    };
    if (field.name == "tokens") give(sample.tokens);
    if (field.name == "targets") give(sample.targets);
    if (field.name == "loss_mask") give(sample.mask);
    if (field.name == "positions") give(sample.positions);
    if (field.name == "first") give(sample.first);
    if (field.name == "last") give(sample.last);
  }
  data.read(set, ordinal, out);
  return sample;
}

struct OpenIndexed {
  i64 length = 4;
  u64 seed = 1;
  i64 samples = 0;
  i64 vocabulary = 0;
  std::string keep_in = "";
  std::string tokenizer = "numbers";
};

inline std::shared_ptr<Dataset> open_indexed(const std::string& keys, const OpenIndexed& with) {
  DatasetArguments arguments{.sequence_length = with.length,
                             .seed = with.seed,
                             .tokenizer = std::make_shared<NumberTokenizer>(with.tokenizer),
                             .training_samples = with.samples,
                             .vocabulary = with.vocabulary,
                             .keep_in = with.keep_in};
  return make_plugin<Dataset>("indexed", keys, arguments);
}

inline std::string path_key(const std::string& path, const std::string& key = "path") {
  return key + " = \"" + path + "\"\n";
}

}  // namespace tessera
