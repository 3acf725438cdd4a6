# Gets its environment, a rendered template, a folder to work in, and none of what is denied.
job "environment" {
  type = "batch"
  group "main" {
    task "looks" {
      driver = "tacho"
      env {
        GREETING = "hello"
        SECRET   = "hush"
      }
      template {
        data        = "rendered for {{ env \"NOMAD_TASK_NAME\" }}"
        destination = "local/rendered.txt"
      }
      config {
        command        = "sh"
        args           = ["-c", "env; cat ${NOMAD_TASK_DIR}/rendered.txt; echo; pwd"]
        work_dir       = "/tmp"
        denied_envvars = ["SEC*"]
      }
    }
  }
}
