// Feeds parsers with broken inputs, by libFuzzer: fuzz [--target NAME] [its options and inputs].
// Without --target each parser has its turn.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "tessera/error.hpp"

namespace tessera::fuzz {

void finding(const std::string& what) {
  std::fprintf(stderr, "finding: %s\n", what.c_str());
  std::abort();  // libFuzzer keeps the input
}

namespace {

const Target* target = nullptr;

// Why the parser refuses the input; empty: it takes it.
std::string refusal(const std::string& input) {
  try {
    target->run(input);
    return "";
  } catch (const Error& error) {
    if (*error.what() == '\0') finding("an error without a text");
    return error.what();
  } catch (const std::exception& error) {
    finding(std::string("it throws something else than tessera::Error: ") + error.what());
  }
}

// What libFuzzer starts from, in memory; it adds the inputs that reach new code.
class Corpus {
 public:
  explicit Corpus(const Target& of) {
    std::string name = "/dev/shm/fuzz-corpus-XXXXXX";
    require(mkdtemp(name.data()) != nullptr, "fuzz: no folder in memory");
    folder_ = name;
    std::filesystem::create_directory(inputs());
    int number = 0;
    for (const auto* list : {&of.seeds, &of.planted}) {
      for (const std::string& input : *list) {
        const std::string why = refusal(input);
        // Otherwise nothing that follows its refusal would be reached.
        require(
            list != &of.seeds || why.empty(), "fuzz: a seed of {} is refused: {}", of.name, why);
        std::ofstream(inputs() / std::to_string(number++), std::ios::binary) << input;
      }
    }
    std::ofstream words(dictionary());
    for (const std::string& token : of.tokens) {
      words << '"';
      for (const unsigned char c : token) words << fmt::format("\\x{:02x}", c);
      words << "\"\n";
    }
  }
  ~Corpus() { std::filesystem::remove_all(folder_); }
  Corpus(const Corpus&) = delete;
  Corpus& operator=(const Corpus&) = delete;

  std::filesystem::path inputs() const { return folder_ / "inputs"; }
  std::filesystem::path dictionary() const { return folder_ / "dictionary"; }

 private:
  std::filesystem::path folder_;
};

// Goes on in a process of its own for each target; this one ends with the worst of their results.
void each_of(const std::vector<Target>& all) {
  bool failed = false;
  for (const Target& one : all) {
    const pid_t child = fork();
    require(child >= 0, "fuzz: no process");
    if (child == 0) {
      target = &one;
      return;
    }
    int status = 0;
    waitpid(child, &status, 0);
    failed = failed || status != 0;
  }
  std::exit(failed ? 1 : 0);
}

void choose(int* argc, char*** argv) {
  static const std::vector<Target> kAll = targets();
  static std::vector<std::string> words(*argv, *argv + *argc);
  if (words.size() > 2 && words[1] == "--target") {
    for (const Target& one : kAll) {
      if (one.name == words[2]) target = &one;
    }
    if (target == nullptr) fail("fuzz: there is no target {}", words[2]);
    words.erase(words.begin() + 1, words.begin() + 3);
  } else {
    each_of(kAll);
  }
  std::printf("%s\n", target->name.c_str());
  std::fflush(stdout);
  static const Corpus corpus(*target);
  bool replays = false;
  for (std::size_t i = 1; i < words.size(); ++i) replays = replays || words[i][0] != '-';
  if (!replays) words.push_back(corpus.inputs());
  // Before those that are given, which win.
  words.insert(words.begin() + 1,
               {"-dict=" + corpus.dictionary().string(),
                "-artifact_prefix=finding-" + target->name + "-",
                "-max_len=4096",
                "-timeout=60",
                "-verbosity=0",
                "-print_funcs=0",
                "-print_final_stats=1"});
  static std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  *argc = static_cast<int>(words.size());
  *argv = pointers.data();
}

}  // namespace
}  // namespace tessera::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) try {
  tessera::fuzz::choose(argc, argv);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::fuzz::refusal({reinterpret_cast<const char*>(data), size});
  return 0;
}
