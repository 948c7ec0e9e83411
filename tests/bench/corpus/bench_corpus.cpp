// Tessera's side of data.py, started by it. Prints one line of JSON.
//
// bench_corpus encode TOKENIZER FOLDER FILE THREADS IDS: the time that the tokenizer (gpt2,
// wordpiece) of FOLDER takes for the documents of FILE, which zero bytes end, in their order; IDS
// becomes their ids (i32).
//
// bench_corpus samples KEYS LENGTH SEED COUNT: the time of COUNT training samples of the dataset
// `indexed`, whose keys are TOML, after a pass that is not counted.
#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>

#include "kernel/config/config.hpp"
#include "kernel/plugin/host.hpp"
#include "tessera/data.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

// The time and the processor time of all threads that `run` takes, as JSON.
template <class F>
std::string timed(F&& run) {
  const std::clock_t used = std::clock();
  const auto begin = std::chrono::steady_clock::now();
  run();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return fmt::format(R"({{"seconds": {}, "processor": {}}})",
                     taken.count(),
                     static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC);
}

std::string content(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string_view> documents(std::string_view text) {
  std::vector<std::string_view> found;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = text.find('\0', begin);
    found.push_back(text.substr(begin, end - begin));
  }
  return found;
}

std::string encode(const PluginHost& plugins, const std::vector<std::string>& words) {
  const Config config = Config::parse(fmt::format("[component]\npath = \"{}\"", words.at(3)));
  TokenizerArguments none;
  const auto tokenizer =
      plugins.make<Tokenizer>(words.at(2), *config.node("component"), Given(), none);
  const std::string text = content(words.at(4));
  const auto texts = documents(text);
  constexpr std::size_t kAtOnce = 64;
  std::vector<std::vector<i32>> ids((texts.size() + kAtOnce - 1) / kAtOnce);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    const auto encoder = tokenizer->encoder();
    for (std::size_t part = next++; part < ids.size(); part = next++) {
      const std::size_t end = std::min(texts.size(), (part + 1) * kAtOnce);
      for (std::size_t i = part * kAtOnce; i < end; ++i) encoder->append(texts[i], ids[part]);
    }
  };
  const std::string taken = timed([&] {
    std::vector<std::jthread> threads;
    for (int i = 1; i < std::stoi(words.at(5)); ++i) threads.emplace_back(work);
    work();
  });
  std::ofstream out(words.at(6), std::ios::binary);
  for (const auto& part : ids) {
    out.write(reinterpret_cast<const char*>(part.data()),
              static_cast<std::streamsize>(part.size() * sizeof(i32)));
  }
  return taken;
}

class AnyId final : public Tokenizer {
  i64 do_vocabulary() const override { return i64{1} << 17; }
  std::string do_fingerprint() const override { return "any id"; }
  std::vector<i32> do_encode(std::string_view) const override { return {}; }
  std::string do_decode(const std::vector<i32>&) const override { return ""; }
};

std::string samples(const PluginHost& plugins, const std::vector<std::string>& words) {
  const Config config = Config::parse("[component]\n" + words.at(2));
  const i64 length = std::stoll(words.at(3)), count = std::stoll(words.at(5));
  DatasetArguments arguments{.sequence_length = length,
                             .seed = std::stoull(words.at(4)),
                             .tokenizer = std::make_shared<AnyId>(),
                             .training_samples = count,
                             .vocabulary = 0,
                             .keep_in = ""};
  const auto data = plugins.make<Dataset>("indexed", *config.node("component"), Given(), arguments);
  std::vector<std::vector<std::byte>> memory;
  SampleBuffers out;
  for (const FieldInfo& field : data->fields()) {
    const auto bytes = static_cast<std::size_t>(length * dtype_size(field.dtype));
    out.fields.push_back(memory.emplace_back(bytes).data());
  }
  const auto read_all = [&] {
    for (i64 i = 0; i < count; ++i) data->read(SampleSet::train, i, out);
  };
  read_all();
  return timed(read_all);
}

std::string run(const std::vector<std::string>& words) {
  const PluginHost plugins({std::filesystem::path(TESSERA_BUILD_DIR) / "plugins"});
  if (words.at(1) == "encode") return encode(plugins, words);
  if (words.at(1) == "samples") return samples(plugins, words);
  fail_config("there is no part {}", words.at(1));
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    std::cout << tessera::run({argv, argv + argc}) << '\n';
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
