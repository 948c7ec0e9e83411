#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "tessera/types.hpp"

// Which processors (CPUs of the system) the ranks of a host run on.
namespace tessera {

/// An affinity mask.
class CpuMask {
 public:
  explicit CpuMask(const std::vector<int>& cpus);
  /// Lets the calling thread, and what it starts, run there only. A system call and nothing else,
  /// so it may stand between fork and exec. False where the system refuses.
  bool apply() const;

 private:
  std::vector<unsigned long> words_;
};

/// Undoes that OpenMP, while it was loaded, has bound the first thread of this process: a program
/// that takes the place of this one has all processors again.
void release_processors();

/// Equal runs of `cpus`, one for each rank; none where a rank would get fewer than its threads.
std::vector<std::vector<int>> share_processors(const std::vector<int>& cpus,
                                               i64 ranks,
                                               int threads);

/// Where this process's rank runs, in a form for crowded_text().
std::string processors_of_rank();

/// Names ranks that whoever started them has put on too few processors, though their host has more,
/// and says what to do; empty where there are none. By rank: its host and processors_of_rank().
std::string crowded_text(const std::vector<std::string>& hosts,
                         const std::vector<std::string>& processors);

/// Variables that make OpenMP bind threads; those of them that are set, "OMP_PROC_BIND=true".
inline constexpr const char* kBindingVariables[] = {
    "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"};
std::string binding_text();

/// Which of them name processors one by one, and so are meant for one process; whether OpenMP binds
/// threads without them, too.
struct NamedProcessors {
  std::vector<std::string> variables;
  bool binds = false;
};
NamedProcessors named_processors();

}  // namespace tessera
