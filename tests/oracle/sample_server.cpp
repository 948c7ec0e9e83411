// Prints the samples of a dataset for megatron_data.py and megatron_bert.py: sample_server TYPE
// KEYS LENGTH SEED SAMPLES [--time], where KEYS are the dataset's as TOML and SAMPLES those of the
// training. For each set a line with its size, then a line for each sample: the values of each
// field, with "|" between fields. With --time, only how many microseconds a sample of the training
// set takes.
#include <algorithm>
#include <chrono>
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

// What megatron_bert.py has, too: 1,000 tokens, of which every third one continues a word.
class Pieces final : public Tokenizer {
  i64 do_vocabulary() const override { return 1000; }
  std::string do_fingerprint() const override { return "pieces"; }
  std::vector<i32> do_encode(std::string_view) const override { return {}; }
  std::string do_decode(const std::vector<i32>&) const override { return ""; }
  bool do_continues_word(i32 id) const override { return id >= 5 && id % 3 == 0; }
  SpecialIds do_special_ids() const override { return {.pad = 0, .cls = 2, .sep = 3, .mask = 4}; }
};

template <class T>
void append_values(const std::byte* from, i64 count, std::string& line) {
  const T* values = reinterpret_cast<const T*>(from);
  for (i64 i = 0; i < count; ++i) line += fmt::format("{} ", values[i]);
}

// A sample's memory.
class Room {
 public:
  Room(const Dataset& data, i64 length) : fields_(data.fields()) {
    for (const FieldInfo& field : fields_) {
      const i64 count = field.length == FieldInfo::kTokens ? length : field.length;
      counts_.push_back(count);
      auto& values =
          memory_.emplace_back(static_cast<std::size_t>(count * dtype_size(field.dtype)));
      buffers_.fields.push_back(values.data());
    }
  }
  const SampleBuffers& buffers() const { return buffers_; }
  std::string text() const {
    std::string line;
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (i > 0) line += '|';
      const DType dtype = fields_[i].dtype;
      if (dtype == DType::i64) append_values<i64>(memory_[i].data(), counts_[i], line);
      if (dtype == DType::i32) append_values<i32>(memory_[i].data(), counts_[i], line);
      if (dtype == DType::u8) append_values<u8>(memory_[i].data(), counts_[i], line);
    }
    return line;
  }

 private:
  std::vector<FieldInfo> fields_;
  std::vector<i64> counts_;
  std::vector<std::vector<std::byte>> memory_;
  SampleBuffers buffers_;
};

void time(const Dataset& data, Room& room) {
  using Clock = std::chrono::steady_clock;
  const i64 samples = std::min<i64>(data.size(SampleSet::train), 20'000);
  const Clock::time_point begin = Clock::now();
  for (i64 i = 0; i < samples; ++i) data.read(SampleSet::train, i, room.buffers());
  const std::chrono::duration<double, std::micro> taken = Clock::now() - begin;
  std::cout << taken.count() / static_cast<double>(samples) << '\n';
}

void serve(const std::vector<std::string>& words) {
  const PluginHost plugins({std::filesystem::path(TESSERA_BUILD_DIR) / "plugins"});
  const Config config = Config::parse("[component]\n" + words.at(2));
  std::shared_ptr<const Tokenizer> tokenizer = std::make_shared<AnyId>();
  if (words.at(1) == "bert") tokenizer = std::make_shared<Pieces>();
  DatasetArguments arguments{.sequence_length = std::stoll(words.at(3)),
                             .seed = std::stoull(words.at(4)),
                             .tokenizer = tokenizer,
                             .training_samples = std::stoll(words.at(5)),
                             .vocabulary = 0,
                             .keep_in = ""};
  const auto data =
      plugins.make<Dataset>(words.at(1), *config.node("component"), Given(), arguments);
  Room room(*data, arguments.sequence_length);
  if (words.size() > 6) return time(*data, room);
  for (const SampleSet set : {SampleSet::train, SampleSet::validation, SampleSet::test}) {
    const i64 size = data->size(set);
    std::cout << size << '\n';
    for (i64 i = 0; i < size; ++i) {
      data->read(set, i, room.buffers());
      std::cout << room.text() << '\n';
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
