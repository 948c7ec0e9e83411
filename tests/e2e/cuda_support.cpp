#include "cuda_support.hpp"

namespace tessera::testing {

std::vector<std::string> on_device(const std::string& device, std::vector<std::string> command) {
  for (const char* set : {"plugins.path=[\"" TESSERA_BUILD_DIR "/tests/cuda\"]",
                          "data.path=" TESSERA_SOURCE_DIR "/LICENSE"}) {
    command.insert(command.end(), {"--set", set});
  }
  if (!device.empty()) command.insert(command.end(), {"--set", "device.type=" + device});
  return command;
}

std::vector<std::string> training(const std::string& device,
                                  const std::string& out,
                                  const std::vector<std::string>& more,
                                  const std::string& config) {
  std::vector<std::string> command = on_device(device, {"train", config});
  std::vector<std::string> sets = {"run.out=" + out,
                                   "run.steps=30",
                                   "batch.global=2",
                                   "batch.micro=2",
                                   "batch.sequence_length=32",
                                   "model.hidden=32",
                                   "model.layers=2",
                                   "lr.warmup_steps=4",
                                   "lr.peak=1e-3",
                                   "validation.every_steps=15",
                                   "validation.samples=4",
                                   "checkpoint.every_steps=15",
                                   "device.threads=1"};
  sets.insert(sets.end(), more.begin(), more.end());
  for (const std::string& set : sets) command.insert(command.end(), {"--set", set});
  return command;
}

}  // namespace tessera::testing
