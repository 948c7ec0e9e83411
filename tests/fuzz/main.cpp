// Feeds parsers with broken inputs: fuzz [--target NAME] [--inputs N] [--seconds S] [--seed N]
// [--replay FILE]. g++ has no libFuzzer, but it has what tells which code an input reached
// (-fsanitize-coverage=trace-pc), so inputs that reach something new are kept and mutated further.
#include <sys/time.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "fuzz/fuzz.hpp"
#include "fuzz/mutate.hpp"
#include "tessera/error.hpp"

namespace {

constexpr std::size_t kMap = 1 << 16;
constexpr long kHang = 20;   // seconds of processor time of one input
std::uint8_t reached[kMap];  // edges of the input that runs, by a hash
std::uintptr_t before;
const std::string* running;  // the input, for whoever has to write it down
const char* target_name = "";

// Called when the program aborts, or by finding().
void keep_input() {
  if (running == nullptr) return;
  const std::string name = std::string("finding-") + target_name;
  std::ofstream(name, std::ios::binary) << *running;
  std::fprintf(stderr,
               "%s: the input is in %s; again: fuzz --target %s --replay %s\n",
               target_name,
               name.c_str(),
               target_name,
               name.c_str());
}

extern "C" void tessera_fuzz_aborts(int) {
  keep_input();
  std::_Exit(1);
}
extern "C" void tessera_fuzz_hangs(int) { tessera::fuzz::finding("it hangs"); }

// Processor time: on a busy host an input may wait for long.
void limit_time(long seconds) {
  const itimerval limit = {{0, 0}, {seconds, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
}

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  std::uint8_t& count = reached[(here ^ (before << 1)) * 0x9e3779b97f4a7c15ULL >> 48];
  if (count != 255) ++count;
  before = here;
}

// What sanitizers find ends in abort(), whose handler keeps the input.
extern "C" const char* __asan_default_options() { return "abort_on_error=1"; }
extern "C" const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }

namespace tessera::fuzz {

void finding(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", target_name, what.c_str());
  keep_input();
  std::_Exit(1);
}

namespace {

struct Options {
  std::string target, replay;
  std::size_t inputs = 0;  // of each target; 0: as many as there is time for
  double seconds = 10;     // of each target, where no number of inputs is given
  unsigned seed = 1;
};

// Counts of an edge that mean the same: 1, 2, 3, 4-7, 8-15, …
std::uint8_t bucket(std::uint8_t count) {
  if (count < 4) return static_cast<std::uint8_t>(count == 0 ? 0 : 1 << (count - 1));
  return static_cast<std::uint8_t>(count < 8     ? 8
                                   : count < 16  ? 16
                                   : count < 32  ? 32
                                   : count < 128 ? 64
                                                 : 128);
}

class Campaign {
 public:
  Campaign(const Target& target, unsigned seed) : target_(target), mutator_(seed) {
    target_name = target.name.c_str();
    for (const std::string& one : target.seeds) {
      run(one);
      corpus_.push_back(one);
      // Otherwise nothing that follows its refusal would be reached.
      if (taken_ != corpus_.size()) fail("fuzz: a seed of {} is refused: {}", target.name, error_);
    }
  }

  // Apart from the first ones: these are refused.
  void plant() {
    for (const std::string& one : target_.planted) {
      run(one);
      corpus_.push_back(one);
    }
  }

  void step() {
    const std::string& parent = corpus_[mutator_.below(corpus_.size())];
    const std::string& other = corpus_[mutator_.below(corpus_.size())];
    const std::string input = mutator_.mutate(parent, other, target_.tokens);
    if (run(input)) corpus_.push_back(input);
  }

  // True: it reached what none before it did.
  bool run(const std::string& input) {
    std::memset(reached, 0, sizeof reached);
    before = 0;
    running = &input;
    limit_time(kHang);
    try {
      target_.run(input);
      ++taken_;
    } catch (const Error& error) {
      error_ = error.what();
      if (*error.what() == '\0') finding("an error without a text");
    } catch (const std::exception& error) {
      finding(std::string("it throws something else than tessera::Error: ") + error.what());
    }
    limit_time(0);
    running = nullptr;
    ++inputs_;
    bool news = false;
    for (std::size_t i = 0; i < kMap; i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, reached + i, sizeof word);
      if (word == 0) continue;
      for (std::size_t j = i; j < i + sizeof word; ++j) {
        const std::uint8_t seen = bucket(reached[j]);
        news = news || (seen & ~all_[j]) != 0;
        all_[j] |= seen;
      }
    }
    return news;
  }

  std::size_t inputs() const { return inputs_; }
  void report(double seconds) const {
    std::printf("%-12s %10zu inputs  %6.1f s  %5.1f %% taken  %5zu kept  %5td edges\n",
                target_.name.c_str(),
                inputs_,
                seconds,
                100.0 * static_cast<double>(taken_) / static_cast<double>(inputs_),
                corpus_.size(),
                std::count_if(std::begin(all_), std::end(all_), [](auto c) { return c != 0; }));
    std::fflush(stdout);
  }

 private:
  const Target& target_;
  Mutator mutator_;
  std::vector<std::string> corpus_;
  std::uint8_t all_[kMap] = {};
  std::size_t inputs_ = 0, taken_ = 0;
  std::string error_;
};

void run_target(const Target& target, const Options& options) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  Campaign campaign(target, options.seed);
  campaign.plant();
  if (!options.replay.empty()) {
    std::ifstream file(options.replay, std::ios::binary);
    campaign.run({std::istreambuf_iterator<char>(file), {}});
  } else if (options.inputs > 0) {
    while (campaign.inputs() < options.inputs) campaign.step();
  } else {
    while (seconds() < options.seconds) campaign.step();
  }
  campaign.report(seconds());
}

Options parse(int argc, char** argv) {
  std::map<std::string, std::string> given;
  for (int i = 1; i + 1 < argc; i += 2) given[argv[i]] = argv[i + 1];
  Options options;
  for (const auto& [name, value] : given) {
    if (name == "--target") {
      options.target = value;
    } else if (name == "--replay") {
      options.replay = value;
    } else if (name == "--inputs") {
      options.inputs = std::stoull(value);
    } else if (name == "--seconds") {
      options.seconds = std::stod(value);
    } else if (name == "--seed") {
      options.seed = static_cast<unsigned>(std::stoul(value));
    } else {
      fail("fuzz: there is no option {}", name);
    }
  }
  if (argc % 2 == 0) fail("fuzz: {} has no value", argv[argc - 1]);
  return options;
}

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  std::signal(SIGPROF, tessera_fuzz_hangs);
  std::signal(SIGABRT, tessera_fuzz_aborts);
  std::printf("seed %u\n", options.seed);
  bool any = false;
  for (const Target& target : targets()) {
    if (!options.target.empty() && options.target != target.name) continue;
    run_target(target, options);
    any = true;
  }
  if (!any) fail("fuzz: there is no target {}", options.target);
  return 0;
}

}  // namespace
}  // namespace tessera::fuzz

int main(int argc, char** argv) try {
  return tessera::fuzz::run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
