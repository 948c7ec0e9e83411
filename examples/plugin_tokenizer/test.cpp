// Text to ids and back, characters that the vocabulary lacks, ids that it lacks, a bad alphabet.
#include <cstdio>
#include <exception>
#include <tessera/data.hpp>
#include <tessera/error.hpp>
#include <tessera/testing/local_world.hpp>

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
  TokenizerArguments arguments;
  const auto abc = world.make<Tokenizer>("charset", arguments, {{"characters", "abc "}});
  bool wrong = failed(abc->vocabulary() == 5, "four characters and one for all others");
  wrong |= failed(abc->encode("a Cab") == std::vector<i32>{0, 3, 2, 0, 1}, "each has its id");
  wrong |= failed(abc->decode(abc->encode("a cab")) == "a cab", "and back");
  wrong |= failed(abc->decode(abc->encode("axé")) == "a???", "others by byte");
  for (const i32 id : abc->encode("\xff\x80 z")) {
    wrong |= failed(id >= 0 && id < abc->vocabulary(), "every id is in the vocabulary");
  }
  wrong |= failed(throws([&] { abc->decode({5}); }), "an id beyond it is an error");
  const auto twice = [&] { world.make<Tokenizer>("charset", arguments, {{"characters", "aba"}}); };
  wrong |= failed(throws(twice), "a character that is there twice is an error");
  return wrong ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
