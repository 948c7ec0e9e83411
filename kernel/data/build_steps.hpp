#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kernel/data/build_config.hpp"
#include "kernel/data/chunk_set.hpp"
#include "kernel/data/input_files.hpp"
#include "tessera/device/descriptor.hpp"

namespace tessera {

/// OUTPUT.build, where a build keeps its chunks; one process at a time uses it.
class BuildFolder {
 public:
  /// Throws Error where another process has it.
  explicit BuildFolder(const std::filesystem::path& folder);
  const std::filesystem::path& path() const { return path_; }
  void remove();

 private:
  std::filesystem::path path_;
  Descriptor lock_;
};

/// Chunks that one step made, and a hash of all that they hold.
struct ChunkRow {
  ChunkSet set;
  u64 content = 0;
  std::vector<StageCounts> counts;
  TextAmount amount;
};

/// Which stages a step runs: [begin, end), then, where end is a stage, sketches for that one.
struct StepStages {
  i64 number = 0;  ///< of the step
  std::size_t begin = 0, end = 0;
  std::shared_ptr<const DocumentComparison> next;  ///< nullptr: end is the end of all
};

/// The input, through stages.
ChunkRow read_input(const BuildConfig& config,
                    const std::vector<InputFile>& files,
                    const StepStages& stages,
                    const BuildFolder& folder,
                    int threads);

/// What a stage that compares decided.
struct Decision {
  std::vector<DocumentRemoval> removals;  ///< by number
  u64 content = 0;
};
/// Throws Error where the stage names a document twice, or one that is not there.
Decision decide(const ChunkRow& row,
                const StepStages& stages,
                const BuildFolder& folder,
                int threads);

/// The documents of an earlier step that stayed, through the stages after the one that decided.
ChunkRow go_on(const BuildConfig& config,
               const ChunkRow& from,
               const Decision& decision,
               const StepStages& stages,
               const BuildFolder& folder,
               int threads);

}  // namespace tessera
