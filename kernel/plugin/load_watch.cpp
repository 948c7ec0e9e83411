#include "kernel/plugin/load_watch.hpp"

#include <condition_variable>
#include <mutex>
#include <system_error>

#include "tessera/log.hpp"

namespace tessera {

namespace {

void warn_when_slow(const std::stop_token& loaded,
                    const std::string& file,
                    std::chrono::milliseconds long_time) {
  std::mutex mutex;
  std::condition_variable_any done;
  std::unique_lock lock(mutex);
  done.wait_for(lock, loaded, long_time, [] { return false; });
  if (loaded.stop_requested()) return;
  log_warning(
      "{}: its static constructors or its registration have been running for {:g} s; `tessera "
      "plugins check` says which of them hangs",
      file,
      std::chrono::duration<double>(long_time).count());
}

}  // namespace

LoadWatch::LoadWatch(const std::filesystem::path& file, std::chrono::milliseconds long_time)
    : file_(file.string()), doing_("the static constructors or the registration of", file_) {
  try {
    slow_ = std::jthread(warn_when_slow, file_, long_time);
  } catch (const std::system_error&) {
    // The system has no more threads: the library is loaded without this warning.
  }
}

}  // namespace tessera
