#pragma once
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::testing {

/// Only root may become somebody else: otherwise a test has nobody to be refused.
inline bool may_be_another_user() { return geteuid() == 0; }

struct AbstractName {
  sockaddr_un address{};
  socklen_t length;
  explicit AbstractName(std::string_view name)
      : length(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) {
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

/// A process of user nobody that does one thing, then waits to be ended.
class OtherUser {
 public:
  /// Listens at the abstract socket `name` and takes whatever connects and is said.
  static OtherUser listens(std::string_view name) {
    return OtherUser([name](int until, int ready) { return listen_at(name, until, ready); });
  }
  /// Connects to the abstract socket `name`, again and again, and says nothing.
  static OtherUser floods(std::string_view name) {
    return OtherUser([name](int until, int ready) { return flood(name, until, ready); });
  }
  OtherUser(OtherUser&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        end_(std::exchange(other.end_, -1)),
        words_(std::exchange(other.words_, -1)) {}
  ~OtherUser() { end(); }

  /// Ends it. What it got: "2 connections, 0 bytes, 0 descriptors".
  std::string end() {
    if (pid_ < 0) return {};
    ::close(end_);
    std::string text;
    char bytes[256];
    for (ssize_t n = 0; (n = ::read(words_, bytes, sizeof bytes)) > 0;) text.append(bytes, n);
    ::close(words_);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
    return text;
  }

 private:
  template <class F>
  explicit OtherUser(F&& act) {
    int until[2], words[2];
    if (::pipe2(until, O_CLOEXEC) != 0 || ::pipe2(words, O_CLOEXEC) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      constexpr uid_t kNobody = 65534;
      ::close(until[1]);
      if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(1);
      const std::string got = act(until[0], words[1]);
      _exit(::write(words[1], got.data(), got.size()) == ssize_t(got.size()) ? 0 : 1);
    }
    ::close(until[0]);
    ::close(words[1]);
    end_ = until[1];
    words_ = words[0];
    char ready = 0;
    if (::read(words_, &ready, 1) != 1) end();
  }

  static bool ended(int until, int milliseconds) {
    pollfd wait{until, POLLIN, 0};
    return ::poll(&wait, 1, milliseconds) > 0;
  }

  static std::string listen_at(std::string_view name, int until, int ready) {
    const AbstractName bound(name);
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(listener, bound.get(), bound.length) != 0 || listen(listener, 16) != 0) _exit(2);
    if (::write(ready, ".", 1) != 1) _exit(3);
    std::vector<int> all;
    ssize_t bytes = 0;
    int descriptors = 0;
    const auto take = [&] {
      for (int fd = 0; (fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK)) >= 0;) {
        all.push_back(fd);
      }
      for (const int fd : all) {
        char buffer[4096], rights[256];
        iovec part{buffer, sizeof buffer};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = rights;
        message.msg_controllen = sizeof rights;
        const ssize_t count = recvmsg(fd, &message, 0);
        if (count > 0) bytes += count;
        if (count > 0 && CMSG_FIRSTHDR(&message) != nullptr) ++descriptors;
      }
    };
    while (!ended(until, 10)) take();
    take();
    return std::to_string(all.size()) + " connections, " + std::to_string(bytes) + " bytes, " +
           std::to_string(descriptors) + " descriptors";
  }

  static std::string flood(std::string_view name, int until, int ready) {
    const AbstractName place(name);
    std::vector<int> all;
    if (::write(ready, ".", 1) != 1) _exit(3);
    long made = 0;
    while (!ended(until, 0)) {
      const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
      if (connect(fd, place.get(), place.length) == 0) ++made;
      all.push_back(fd);
      if (all.size() > 200) {
        for (const int old : all) ::close(old);
        all.clear();
      }
    }
    return made > 0 ? "connected" : "never connected";
  }

  pid_t pid_ = -1;
  int end_ = -1, words_ = -1;
};

}  // namespace tessera::testing
