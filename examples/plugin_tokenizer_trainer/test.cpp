// The most frequent bytes, in an order that texts alone decide, and the tokenizer that reads them.
#include <cstdio>
#include <exception>
#include <fstream>
#include <tessera/data.hpp>
#include <tessera/error.hpp>
#include <tessera/testing/local_world.hpp>
#include <tessera/tokenizer_trainer.hpp>

namespace {

using namespace tessera;

bool failed(bool holds, const char* what) {
  if (!holds) std::fprintf(stderr, "not so: %s\n", what);
  return !holds;
}

template <class F>
bool throws(F&& f) try {
  f();
  return false;
} catch (const Error&) {
  return true;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const testing::LocalWorld world(folders);
  TokenizerTrainerArguments none;
  const auto of = [&](i64 vocabulary) {
    return world.make<TokenizerTrainer>("alphabet", none, {{"vocabulary", vocabulary}});
  };
  const std::string bytes = of(4)->train({"cab", "cb", "dc"});
  bool wrong = failed(bytes == "cba", "the most frequent first, then the smaller one");
  wrong |= failed(of(4)->train({"dc", "cab", "cb"}) == bytes, "in any order");
  wrong |= failed(of(5)->train({"cabd"}) == "abcd", "all of them");
  wrong |= failed(throws([&] { of(6)->train({"cabd"}); }), "there are no more");

  const std::string file = std::filesystem::absolute("test_bytes").string();
  std::ofstream(file) << bytes;
  TokenizerArguments arguments;
  const auto reads = world.make<Tokenizer>(of(4)->tokenizer(), arguments, {{"path", file}});
  wrong |= failed(reads->vocabulary() == 4, "three bytes and one for all others");
  wrong |= failed(reads->encode("abcd") == std::vector<i32>{2, 1, 0, 3}, "each has its id");
  wrong |= failed(reads->decode({2, 1, 0, 3}) == "abc?", "and back");
  wrong |= failed(throws([&] { reads->decode({4}); }), "an id beyond it is an error");
  return wrong ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
