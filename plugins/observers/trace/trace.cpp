#include "trace.hpp"

#include <fstream>

#include "tessera/error.hpp"

namespace tessera {

TraceWriter::TraceWriter(const Config& config, ObserverArguments& arguments)
    : arguments_(arguments) {
  const bool pair = config.steps.size() == 2 && config.steps[0] >= 1;
  if (!pair || config.steps[0] > config.steps[1]) {
    throw ConfigError(
        "trace: steps must be the first and the last step that are recorded, as [10, 12]");
  }
  range_ = {config.steps[0], config.steps[1]};
}

void TraceWriter::on(const Recorded& recorded) {
  const std::string path = arguments_.out + "/trace.json";
  set_aside(path);
  std::ofstream out(path, std::ios::binary);
  out << recorded.trace;
  out.close();
  if (!out.good()) fail("trace: cannot write \"{}\"", path);
}

}  // namespace tessera
