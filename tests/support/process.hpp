// Runs a program as a user would: arguments in, stdout, stderr and exit code out.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

namespace sluice::test {

/// A running child. Killed, not left behind, when it goes out of scope.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments, const std::string& input = "") {
    int in[2];
    int out[2];
    int err[2];
    if (pipe(in) != 0 || pipe(out) != 0 || pipe(err) != 0) throw std::runtime_error("pipe");
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("fork");
    if (pid_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      dup2(err[1], STDERR_FILENO);
      for (const int* ends : {in, out, err}) {
        close(ends[0]);
        close(ends[1]);
      }
      std::vector<char*> argv;
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    if (!input.empty() && write(in[1], input.data(), input.size()) < 0) {
      // The child may have gone already; its exit code will say so.
    }
    close(in[1]);
    out_ = out[0];
    err_ = err[0];
  }

  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
    close(err_);
  }

  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Reads until stdout or stderr contains `text`; false when the child ends or time is up.
  bool wait_for_output(const std::string& text, std::chrono::seconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < deadline) {
      if (contains(text)) return true;
      if (!read_some(std::chrono::milliseconds(100)) && out_closed_ && err_closed_) break;
    }
    return contains(text);
  }

  /// Waits for the end and returns the exit code; 128 + signal when it was killed, -1 when time
  /// is up.
  int wait(std::chrono::seconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!(out_closed_ && err_closed_)) {
      if (std::chrono::steady_clock::now() > deadline) return -1;
      read_some(std::chrono::milliseconds(100));
    }
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) return -1;
      usleep(1000);
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  void send(int signal) const { kill(pid_, signal); }

  const std::string& out() const { return out_text_; }
  const std::string& err() const { return err_text_; }

 private:
  bool contains(const std::string& text) const {
    return out_text_.find(text) != std::string::npos || err_text_.find(text) != std::string::npos;
  }

  bool read_some(std::chrono::milliseconds wait) {
    pollfd fds[2] = {{out_closed_ ? -1 : out_, POLLIN, 0}, {err_closed_ ? -1 : err_, POLLIN, 0}};
    if (poll(fds, 2, static_cast<int>(wait.count())) <= 0) return false;
    bool any = false;
    if ((fds[0].revents & (POLLIN | POLLHUP)) != 0) any |= take(out_, out_text_, out_closed_);
    if ((fds[1].revents & (POLLIN | POLLHUP)) != 0) any |= take(err_, err_text_, err_closed_);
    return any;
  }

  static bool take(int fd, std::string& text, bool& closed) {
    char buffer[4096];
    const ssize_t count = read(fd, buffer, sizeof buffer);
    if (count <= 0) {
      closed = true;
      return false;
    }
    text.append(buffer, static_cast<std::size_t>(count));
    return true;
  }

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  bool out_closed_ = false;
  bool err_closed_ = false;
  std::string out_text_;
  std::string err_text_;
};

}  // namespace sluice::test
