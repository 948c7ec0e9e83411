// Encodes and decodes for tokens.py: token_server TYPE KEYS, where KEYS are the tokenizer's as
// TOML. Each line of the input is a text in hexadecimal digits; the answer has two lines, its ids
// and the hexadecimal digits of what they are decoded to. Special tokens are parsed; with --text
// they are text. With --time, a line is a file: the answer is the seconds that encoding it takes,
// as one text and in pieces of 2,000 bytes.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "kernel/config/config.hpp"
#include "kernel/plugin/host.hpp"
#include "tessera/data.hpp"

namespace tessera {
namespace {

std::string from_hex(const std::string& digits) {
  std::string text;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    text += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return text;
}

template <class F>
double seconds(F&& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string answer(const Tokenizer& tokenizer, const std::string& text, SpecialTexts special) {
  const std::vector<i32> ids = tokenizer.encode(text, special);
  std::string line;
  for (const i32 id : ids) line += fmt::format("{} ", id);
  line += '\n';
  for (const char c : tokenizer.decode(ids)) {
    line += fmt::format("{:02x}", static_cast<unsigned char>(c));
  }
  return line;
}

std::string times(const Tokenizer& tokenizer, const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const double whole = seconds([&] { tokenizer.encode(text); });
  const double pieces = seconds([&] {
    for (std::size_t at = 0; at < text.size(); at += 2000) tokenizer.encode(text.substr(at, 2000));
  });
  return fmt::format("{} {}", whole, pieces);
}

void serve(const std::vector<std::string>& words) {
  const PluginHost plugins({std::filesystem::path(TESSERA_BUILD_DIR) / "plugins"});
  const Config config = Config::parse("[component]\n" + words.at(2));
  TokenizerArguments none;
  const auto tokenizer =
      plugins.make<Tokenizer>(words.at(1), *config.node("component"), Given(), none);
  const std::string how = words.size() > 3 ? words[3] : "";
  const bool timed = how == "--time";
  const SpecialTexts special = how == "--text" ? SpecialTexts::as_text : SpecialTexts::parsed;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << (timed ? times(*tokenizer, line) : answer(*tokenizer, from_hex(line), special))
              << '\n'
              << std::flush;
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    tessera::serve({argv, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
