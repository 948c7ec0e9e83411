// Prints the samples of a dataset for megatron_data.py: sample_server TYPE KEYS LENGTH SEED
// SAMPLES, where KEYS are the dataset's as TOML and SAMPLES those of the training. For each set a
// line with its size, then a line for each sample: the values of each field, with "|" between
// fields.
#include <filesystem>
#include <iostream>

#include "kernel/config/config.hpp"
#include "kernel/plugin/host.hpp"
#include "tessera/data.hpp"

namespace tessera {
namespace {

class AnyId final : public Tokenizer {
  i64 do_vocabulary() const override { return i64{1} << 31; }
  std::string do_fingerprint() const override { return "any id"; }
  std::vector<i32> do_encode(std::string_view) const override { return {}; }
  std::string do_decode(const std::vector<i32>&) const override { return ""; }
};

template <class T>
void append_values(const std::byte* from, i64 count, std::string& line) {
  const T* values = reinterpret_cast<const T*>(from);
  for (i64 i = 0; i < count; ++i) line += fmt::format("{} ", values[i]);
}

std::string sample_text(const Dataset& data, SampleSet set, i64 ordinal, i64 length) {
  const std::vector<FieldInfo> fields = data.fields();
  std::vector<std::vector<std::byte>> memory;
  SampleBuffers out;
  for (const FieldInfo& field : fields) {
    const auto bytes = static_cast<std::size_t>(length * dtype_size(field.dtype));
    out.fields.push_back(memory.emplace_back(bytes).data());
  }
  data.read(set, ordinal, out);
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) line += '|';
    const DType dtype = fields[i].dtype;
    if (dtype == DType::i64) append_values<i64>(memory[i].data(), length, line);
    if (dtype == DType::i32) append_values<i32>(memory[i].data(), length, line);
    if (dtype == DType::u8) append_values<u8>(memory[i].data(), length, line);
  }
  return line;
}

void serve(const std::vector<std::string>& words) {
  const PluginHost plugins({std::filesystem::path(TESSERA_BUILD_DIR) / "plugins"});
  const Config config = Config::parse("[component]\n" + words.at(2));
  DatasetArguments arguments{.sequence_length = std::stoll(words.at(3)),
                             .seed = std::stoull(words.at(4)),
                             .tokenizer = std::make_shared<AnyId>(),
                             .training_samples = std::stoll(words.at(5)),
                             .vocabulary = 0,
                             .keep_in = ""};
  const auto data =
      plugins.make<Dataset>(words.at(1), *config.node("component"), Given(), arguments);
  for (const SampleSet set : {SampleSet::train, SampleSet::validation, SampleSet::test}) {
    const i64 size = data->size(set);
    std::cout << size << '\n';
    for (i64 i = 0; i < size; ++i) {
      std::cout << sample_text(*data, set, i, arguments.sequence_length) << '\n';
    }
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    tessera::serve({argv, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
