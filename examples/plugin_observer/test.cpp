// The events of a run, of one that is stopped and resumed, and of a second run in the same folder.
#include <stdlib.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <tessera/observer.hpp>
#include <tessera/testing/local_world.hpp>

namespace {

using namespace tessera;

std::string contents(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

void run(const testing::LocalWorld& world, const std::string& out, i64 first, i64 last) {
  ObserverArguments arguments{.out = out, .resume_step = first - 1};
  const auto observer = world.make<Observer>("loss_table", arguments, {{"spike", 2.0}});
  observer->on(RunStart());
  for (i64 step = first; step <= last; ++step) {
    StepEnd done;
    done.step = step;
    done.loss = step == 3 ? 8 : 2;
    observer->on(done);
    if (step == 2) observer->on(Saving{step});
  }
  observer->on(RunEnd());
}

bool differs(const std::string& path, const std::string& expected) {
  const std::string is = contents(path);
  if (is != expected) std::fprintf(stderr, "%s holds\n%s", path.c_str(), is.c_str());
  return is != expected;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const testing::LocalWorld world(folders);
  std::string name = std::filesystem::temp_directory_path() / "loss_table_XXXXXX";
  const std::string out = mkdtemp(name.data());
  run(world, out, 1, 4);
  bool wrong = differs(out + "/losses.csv", "step,loss,spike\n1,2,0\n2,2,0\n3,8,1\n4,2,0\n");
  run(world, out, 3, 3);  // it goes on from the checkpoint of step 2
  wrong |= differs(out + "/losses.csv", "step,loss,spike\n1,2,0\n2,2,0\n3,8,1\n");
  run(world, out, 1, 1);
  wrong |= differs(out + "/losses.csv", "step,loss,spike\n1,2,0\n");
  wrong |= differs(out + "/losses.1.csv", "step,loss,spike\n1,2,0\n2,2,0\n3,8,1\n");
  std::filesystem::remove_all(out);
  return wrong ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
