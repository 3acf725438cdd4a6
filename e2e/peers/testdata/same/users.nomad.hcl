# Who tasks of other users are, and what they may write.
job "users" {
  type = "batch"
  group "g" {
    task "nobody" {
      driver = "tacho"
      user   = "nobody"
      config {
        command = "/bin/sh"
        args    = ["-c", local.who]
      }
    }
    task "daemon" {
      driver = "tacho"
      user   = "daemon"
      config {
        command = "/bin/sh"
        args    = ["-c", local.who]
      }
    }
    task "none" {
      driver = "tacho"
      config {
        command = "/bin/sh"
        args    = ["-c", local.who]
      }
    }
  }
}
locals {
  who = <<-EOF
    id
    pwd | sed 's,.*/,,'
    umask
    for d in "$NOMAD_TASK_DIR" "$NOMAD_ALLOC_DIR/data" "$NOMAD_ALLOC_DIR/tmp" "$NOMAD_ALLOC_DIR/logs" "$NOMAD_SECRETS_DIR" "$NOMAD_ALLOC_DIR" .; do
      touch "$d/of-$NOMAD_TASK_NAME" 2>/dev/null && echo "writes $(basename "$d")" || echo "no $(basename "$d")"
    done
  EOF
}
