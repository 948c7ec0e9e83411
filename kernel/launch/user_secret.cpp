#include "kernel/launch/user_secret.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "kernel/comm/crypto.hpp"
#include "kernel/launch/environment.hpp"
#include "tessera/device/descriptor.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBytes = 32;
constexpr const char* kName = "secret";

template <class Why>  // a text, or what the system says
[[noreturn]] void refuse(const fs::path& path, const Why& why) {
  fail_config(
      "{}: {}, so it cannot hold the secret by which the ranks of this host know each other; "
      "remove it, or set {} to one secret text for all ranks",
      written_path(path),
      why,
      kTokenVariable);
}

bool only_ours(const struct stat& found) {
  return found.st_uid == geteuid() && (found.st_mode & 077) == 0;
}

void require_ours(int fd, mode_t kind, const fs::path& path) {
  struct stat found {};
  if (fstat(fd, &found) != 0) refuse(path, SystemError());
  if ((found.st_mode & S_IFMT) != kind) refuse(path, "it is of another kind");
  if (found.st_uid != geteuid()) {
    refuse(path, fmt::format("it belongs to user {}, not to user {}", found.st_uid, geteuid()));
  }
  if (!only_ours(found)) refuse(path, "others may read it");
}

// The file is linked to its name when it is whole, so whatever lies there is whole.
void make_secret(int folder, const fs::path& path) {
  const std::string temporary = "new-" + hex_text(random_bytes(8));
  const std::string bytes = random_bytes(kBytes);
  const Descriptor file(
      openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) refuse(path, SystemError());
  const bool written = write(file.get(), bytes.data(), kBytes) == static_cast<ssize_t>(kBytes);
  const bool linked = written && (linkat(folder, temporary.c_str(), folder, kName, 0) == 0 ||
                                  errno == EEXIST);  // another rank was faster
  const int error = errno;
  unlinkat(folder, temporary.c_str(), 0);
  if (!linked) refuse(path, SystemError(error));
}

}  // namespace

fs::path user_secret_folder(const std::optional<std::string>& runtime) {
  struct stat found {};
  if (runtime && lstat(runtime->c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
      fs::path(*runtime).is_absolute() && only_ours(found)) {
    return fs::path(*runtime) / "tessera";
  }
  return fmt::format("/tmp/tessera-{}", geteuid());
}

std::string user_secret(const fs::path& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) refuse(folder, SystemError());
  const Descriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened) refuse(folder, SystemError());
  require_ours(opened.get(), S_IFDIR, folder);
  const fs::path path = folder / kName;
  const auto open_secret = [&] {
    return Descriptor(openat(opened.get(), kName, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  };
  Descriptor file = open_secret();
  if (!file && errno == ENOENT) {
    make_secret(opened.get(), path);
    file = open_secret();
  }
  if (!file) refuse(path, SystemError());
  require_ours(file.get(), S_IFREG, path);
  std::array<char, kBytes + 1> bytes;
  if (read(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(kBytes)) {
    refuse(path, fmt::format("it has not {} bytes", kBytes));
  }
  return {bytes.data(), kBytes};
}

}  // namespace tessera
