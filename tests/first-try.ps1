# Half an hour with DMV on Windows, where nobody has used it yet: it tries what could differ there, in a new directory of
# its own, and writes a report. Please send the report back with what you think of it.
#
#   powershell -ExecutionPolicy Bypass -File first-try.ps1 -Dmv .\dmv.exe [-Place D:\] [-Files 20000] [-MiB 300] [-LargeMiB 4200]
#
# -Place is a directory on the disk to try, else the temporary one. Nothing outside of the new directory is changed.
param(
    [Parameter(Mandatory)] [string] $Dmv,
    [string] $Place = $env:TEMP,
    [int] $Files = 20000,
    [int] $MiB = 300,
    [int] $LargeMiB = 4200
)
$Dmv = (Resolve-Path $Dmv).Path
$top = Join-Path $Place ("dmv-first-try-" + [Guid]::NewGuid().ToString("N").Substring(0, 8))
New-Item -ItemType Directory $top | Out-Null
$report = Join-Path $top "report.txt"
$env:XDG_CONFIG_HOME = Join-Path $top "settings"
$env:XDG_CACHE_HOME = Join-Path $top "cache"
$env:HOME = $top
$script:failures = 0

function Say($text) {
    Write-Host $text
    Add-Content -Path $report -Value $text -Encoding UTF8
}

# Each step says how long it took. A step that fails says what the program said.
function Step($name, [int[]] $codes, [string[]] $arguments) {
    $watch = [Diagnostics.Stopwatch]::StartNew()
    $said = & $Dmv @arguments 2>&1 | Out-String
    $code = $LASTEXITCODE
    $seconds = "{0,6:n1} s" -f $watch.Elapsed.TotalSeconds
    if ($codes -contains $code) {
        Say "ok      $seconds  $name"
    } else {
        $script:failures++
        Say "FAILED  $seconds  ${name}: ended with $code, not $($codes -join ' or ')"
        $said -split "`r?`n" | ForEach-Object { Say "        $_" }
    }
    $said
}

function Check($name, $isTrue) {
    if ($isTrue) { Say "ok                $name" } else { $script:failures++; Say "FAILED            $name" }
}

function Random-File($path, [long] $bytes) {
    $random = New-Object Random
    $part = New-Object byte[] (1MB)
    $file = [IO.File]::Create($path)
    for ($left = $bytes; $left -gt 0; $left -= $part.Length) { $random.NextBytes($part); $file.Write($part, 0, [Math]::Min($left, $part.Length)) }
    $file.Close()
}

function Same($one, $other) { (Get-FileHash $one).Hash -eq (Get-FileHash $other).Hash }

$system = [Environment]::OSVersion.VersionString
Say "DMV, a first try on $system, $(Get-Date -Format yyyy-MM-dd)"
Say (& $Dmv --version | Out-String).Trim()
$drive = New-Object IO.DriveInfo ([IO.Path]::GetPathRoot($top))
Say "$($drive.Name) $($drive.DriveFormat), $([Math]::Round($drive.AvailableFreeSpace / 1GB)) GB free"
$long = (Get-ItemProperty HKLM:\SYSTEM\CurrentControlSet\Control\FileSystem -ErrorAction SilentlyContinue).LongPathsEnabled
Say "long paths are enabled: $long; administrator: $(([Security.Principal.WindowsPrincipal] [Security.Principal.WindowsIdentity]::GetCurrent()).IsInRole('Administrators'))"

Say ""; Say "1. The everyday commands"
Set-Location $top
Step "init" 0 @("init", "work") | Out-Null
Set-Location work
New-Item -ItemType Directory media\deep | Out-Null
Set-Content media\a.txt "one"
Random-File "$top\work\media\film.bin" ($MiB * 1MB)
for ($i = 0; $i -lt $Files; $i++) { [IO.File]::WriteAllText("$top\work\media\deep\$i.txt", "$i") }
Step "commit $Files files and $MiB MiB" 0 @("commit", "-m", "first") | Out-Null
Step "status" 0 @("status", "--exit-code") | Out-Null
Step "branch" 0 @("branch", "side") | Out-Null
Add-Content media\a.txt "two"
Step "status sees a change" 1 @("status", "--exit-code") | Out-Null
Step "second commit" 0 @("commit", "-m", "second") | Out-Null
Step "checkout" 0 @("checkout", "side") | Out-Null
Check "checkout has written the old file" ((Get-Content media\a.txt) -eq "one")
Set-Content b.txt "b"
Step "third commit" 0 @("commit", "-m", "third") | Out-Null
Step "merge" 0 @("merge", "main") | Out-Null
Step "undo the merge" 0 @("undo") | Out-Null
Step "redo" 0 @("redo") | Out-Null
Step "verify" 0 @("verify", "--full") | Out-Null

Say ""; Say "2. What Windows has of its own"
Rename-Item media\a.txt A.txt
Step "status sees another case" 1 @("status", "--exit-code") | Out-Null
Step "commit another case" 0 @("commit", "-m", "case") | Out-Null
Rename-Item media\deep Deep2; Rename-Item media\Deep2 Deep
Step "commit another case of a directory" 0 @("commit", "-m", "case of a directory") | Out-Null
Step "nothing is left to commit" 0 @("status", "--exit-code") | Out-Null
$name = "d" * 100
try {
    New-Item -ItemType Directory -Force "\\?\$top\work\$name\$name\$name" -ErrorAction Stop | Out-Null
    [IO.File]::WriteAllText("\\?\$top\work\$name\$name\$name\file.txt", "deep")
    Step "commit a path of more than 260 characters" 0 @("commit", "-m", "long") | Out-Null
} catch { Say "skipped: PowerShell cannot make a long path: $_" }
(Get-Item b.txt).IsReadOnly = $true
Step "a read-only file is no change" 0 @("status", "--exit-code") | Out-Null
Step "checkout replaces a read-only file" 0 @("checkout", "@~3") | Out-Null
Step "checkout goes back" 0 @("checkout", "side") | Out-Null
cmd /c mklink /J junction media | Out-Null
Step "a junction is reported, and not entered" @(0, 1, 3) @("status") | ForEach-Object { Say "        $($_.Trim() -replace '\s+', ' ')" }
cmd /c rmdir junction

Say ""; Say "3. Files that another program holds"
Set-Content held.txt "one"
Step "commit" 0 @("commit", "-m", "held") | Out-Null
Set-Content held.txt "two"; Set-Content free.txt "two"
$hold = [IO.File]::Open("$top\work\held.txt", "Open", "ReadWrite", "None")
$said = Step "commit while a file is held: the rest goes on" 3 @("commit", "-m", "while held")
Check "the file is named" ($said -match "held.txt")
$said -split "`r?`n" | ForEach-Object { Say "        $_" }
$hold.Close()
Step "commit afterwards" 0 @("commit", "-m", "after") | Out-Null
$hold = [IO.File]::Open("$top\work\held.txt", "Open", "Read", "Read")
Step "checkout while a file is open for reading" @(0, 3) @("checkout", "@~1") | Out-Null
$hold.Close()
Step "checkout goes on afterwards" 0 @("checkout", "side") | Out-Null
Step "nothing is left to commit" 0 @("status", "--exit-code") | Out-Null

Say ""; Say "4. Copies"
Set-Location $top
Step "clone" 0 @("clone", "work", "copy") | Out-Null
Check "the film is the same" (Same work\media\film.bin copy\media\film.bin)
Step "verify the clone" 0 @("-C", "copy", "verify", "--full") | Out-Null
Step "pull" 0 @("-C", "copy", "pull") | Out-Null

Say ""; Say "5. A kill in the middle"
for ($n = 0; $n -lt 10; $n++) {
    Random-File "$top\work\media\film.bin" ($MiB * 256KB)
    $run = Start-Process $Dmv @("-C", "work", "commit", "-m", "kill") -PassThru -WindowStyle Hidden
    Start-Sleep -Milliseconds ($n * 100)
    Stop-Process $run -Force -ErrorAction SilentlyContinue
    $run.WaitForExit()
}
Step "verify after ten kills" 0 @("-C", "work", "verify", "--full") | Out-Null
Step "commit after ten kills" 0 @("-C", "work", "commit", "--allow-empty", "-m", "after") | Out-Null

Say ""; Say "6. Pages"
$web = Start-Process $Dmv @("-C", "work", "web", "--port", "8765") -PassThru -WindowStyle Hidden -RedirectStandardOutput "$top\web.txt" -RedirectStandardError "$top\web-errors.txt"
Start-Sleep -Seconds 5
$address = (Select-String -Path "$top\web.txt", "$top\web-errors.txt" -Pattern "http://\S+" | Select-Object -First 1).Matches.Value
$page = try { (Invoke-WebRequest $address -UseBasicParsing -SessionVariable session).Content } catch { "$_" }
Check "dmv web shows the overview" ($page -match "Overview")
Stop-Process $web -Force

Say ""; Say "7. Large"
if ($drive.AvailableFreeSpace -gt $LargeMiB * 4MB) {
    Random-File "$top\work\media\large.bin" ($LargeMiB * 1MB)
    Step "commit a file of $LargeMiB MiB" 0 @("-C", "work", "commit", "-m", "large") | Out-Null
    Step "pull it" 0 @("-C", "copy", "pull") | Out-Null
    Check "it is the same" (Same work\media\large.bin copy\media\large.bin)
} else {
    Say "skipped: too little is free"
}

Say ""; Say "$($script:failures) steps failed. The report is $report. You can delete $top when you have sent it."
exit [Math]::Min($script:failures, 1)
