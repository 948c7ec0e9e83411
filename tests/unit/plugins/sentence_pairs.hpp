#pragma once
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {

/// Small files of the tasks that BERT is fine-tuned for, and a vocabulary for them.
class TaskFiles {
 public:
  // Ids: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, the first word 5.
  static constexpr i64 kPad = 0, kUnk = 1, kCls = 2, kSep = 3, kFirst = 5;

  explicit TaskFiles(const std::string& words) {
    std::string lines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (const char c : words) lines += c == ' ' ? '\n' : c;
    folder_.write("vocab.txt", lines + "\n");
  }
  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  /// A text without the paths of this folder, and without who says so.
  std::string plain(std::string text) const {
    text.resize(std::min(text.find('\n'), text.size()));
    const std::string own = folder_.path().string() + "/";
    for (std::size_t at = 0; (at = text.find(own)) != text.npos;) text.erase(at, own.size());
    return text;
  }
  /// Throws ConfigError where the build is without what it needs.
  std::shared_ptr<const Tokenizer> tokenizer() const {
    TokenizerArguments none;
    return make_plugin<Tokenizer>(
        "wordpiece", "path = \"" + folder_.path().string() + "\"\n", none);
  }
  static bool can_tokenize() {
    try {
      TaskFiles("a").tokenizer();
      return true;
    } catch (const ConfigError&) {
      return false;
    }
  }

 private:
  TestFolder folder_;
};

/// The fields of a sample, each as numbers.
inline std::map<std::string, std::vector<i64>> read_fields_of(const Dataset& data,
                                                              SampleSet set,
                                                              i64 ordinal,
                                                              i64 length) {
  constexpr u8 kFill = 0xA5;
  std::vector<std::vector<u8>> bytes;
  const std::vector<FieldInfo> fields = data.fields();
  const auto count = [&](const FieldInfo& field) {
    return static_cast<std::size_t>(field.length == FieldInfo::kTokens ? length : field.length);
  };
  for (const FieldInfo& field : fields) {
    bytes.emplace_back(count(field) * sizeof(i64), kFill);
  }
  SampleBuffers out;
  for (auto& one : bytes) out.fields.push_back(one.data());
  data.read(set, ordinal, out);
  std::map<std::string, std::vector<i64>> all;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    std::vector<i64>& values = all[fields[i].name];
    for (std::size_t k = 0; k < count(fields[i]); ++k) {
      const void* from = bytes[i].data();
      if (fields[i].dtype == DType::i64) values.push_back(static_cast<const i64*>(from)[k]);
      if (fields[i].dtype == DType::i32) values.push_back(static_cast<const i32*>(from)[k]);
      if (fields[i].dtype == DType::u8) values.push_back(static_cast<const u8*>(from)[k]);
    }
  }
  return all;
}

/// Datasets of tasks over such files. Skips where the build cannot tokenise.
class TaskDatasets : public ::testing::Test {
 protected:
  explicit TaskDatasets(const std::string& words) : files_(words) {}
  void SetUp() override {
    if (!TaskFiles::can_tokenize()) GTEST_SKIP() << "this build has no wordpiece";
  }
  std::shared_ptr<Dataset> open(const std::string& type,
                                const std::string& keys,
                                i64 length = 8,
                                u64 seed = 1,
                                i64 vocabulary = 0) const {
    DatasetArguments arguments{.sequence_length = length,
                               .seed = seed,
                               .tokenizer = files_.tokenizer(),
                               .vocabulary = vocabulary};
    return make_plugin<Dataset>(type, keys, arguments);
  }
  // Where validation shows the file in its order.
  std::string both(const std::string& name, const std::string& text) const {
    files_.write("other-" + name, text);
    return key("other-" + name) + "validation_" + key(name, text);
  }
  std::string key(const std::string& name) const {
    return "path = [\"" + files_.path(name) + "\"]\n";
  }
  std::string key(const std::string& name, const std::string& text) const {
    files_.write(name, text);
    return key(name);
  }
  std::string refused(const std::string& type, const std::string& keys, i64 length = 8) const {
    return files_.plain(text_of<ConfigError>([&] { open(type, keys, length); }));
  }

  TaskFiles files_;
};

}  // namespace tessera
